// The kernel ABI as libgccjit knows it. Not thread-safe: it belongs to the context's thread.
#pragma once

#include "jit/gccjit_primitives.hpp"

namespace heddle::jit {

/// The structs of kernel.h in a context. Fields in their order there.
struct KernelAbi {
  explicit KernelAbi(GccjitContext& in) {
    gcc_jit_context* c = in.get();
    gcc_jit_type* void_ptr = gcc_jit_context_get_type(c, GCC_JIT_TYPE_VOID_PTR);
    const auto field = [c](gcc_jit_type* type, const char* name) {
      return gcc_jit_context_new_field(c, nullptr, type, name);
    };
    data = field(void_ptr, "data");
    gcc_jit_field* buffer_fields[] = {data, field(in.type(DType::u64), "bytes")};
    gcc_jit_type* buffer = gcc_jit_struct_as_type(
        gcc_jit_context_new_struct_type(c, nullptr, "heddle_kernel_buffer", 2, buffer_fields));
    gcc_jit_type* trace_params[] = {void_ptr,
                                    in.type(DType::u32),
                                    in.type(DType::u32),
                                    in.type(DType::i64),
                                    in.type(DType::f64),
                                    in.type(DType::f64)};
    trace_type = gcc_jit_context_new_function_ptr_type(
        c, nullptr, gcc_jit_context_get_type(c, GCC_JIT_TYPE_VOID), 6, trace_params, 0);
    buffers = field(gcc_jit_type_get_pointer(buffer), "buffers");
    statics = field(gcc_jit_type_get_pointer(in.type(DType::i64)), "statics");
    part = field(in.type(DType::u32), "part");
    num_parts = field(in.type(DType::u32), "num_parts");
    trace = field(trace_type, "trace");
    trace_context = field(void_ptr, "trace_context");
    gcc_jit_field* args_fields[] = {field(in.type(DType::u32), "struct_size"),
                                    field(in.type(DType::u32), "abi"),
                                    buffers,
                                    field(in.type(DType::u32), "num_buffers"),
                                    field(in.type(DType::u32), "num_statics"),
                                    statics,
                                    part,
                                    num_parts,
                                    field(void_ptr, "dims"),
                                    field(void_ptr, "status"),
                                    trace,
                                    trace_context};
    args_ptr = gcc_jit_type_get_pointer(gcc_jit_struct_as_type(
        gcc_jit_context_new_struct_type(c, nullptr, "heddle_kernel_args", 12, args_fields)));
  }

  gcc_jit_field *data, *buffers, *statics, *part, *num_parts, *trace, *trace_context;
  gcc_jit_type *trace_type, *args_ptr;
};

}  // namespace heddle::jit
