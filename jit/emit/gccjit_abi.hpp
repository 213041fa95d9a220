// The kernel ABI in libgccjit's types. Not thread-safe: the object belongs to the context's thread.
#pragma once

#include "heddle/kernel.h"
#include "jit/emit/gccjit_primitives.hpp"

namespace heddle::jit {

/// The structs of kernel.h in a context. Fields have the order of kernel.h.
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
    gcc_jit_field* status_fields[] = {field(in.type(DType::i32), "code"),
                                      field(in.type(DType::i32), "detail")};
    code = status_fields[0];
    status_type = gcc_jit_type_get_pointer(gcc_jit_struct_as_type(
        gcc_jit_context_new_struct_type(c, nullptr, "heddle_kernel_status", 2, status_fields)));
    status = field(status_type, "status");
    word = in.type(DType::u32);
    stop = field(gcc_jit_type_get_pointer(word), "stop");
    gcc_jit_field* args_fields[] = {field(in.type(DType::u32), "struct_size"),
                                    field(in.type(DType::u32), "abi"),
                                    buffers,
                                    field(in.type(DType::u32), "num_buffers"),
                                    field(in.type(DType::u32), "num_statics"),
                                    statics,
                                    part,
                                    num_parts,
                                    field(void_ptr, "dims"),
                                    status,
                                    trace,
                                    trace_context,
                                    stop};
    args_ptr = gcc_jit_type_get_pointer(gcc_jit_struct_as_type(
        gcc_jit_context_new_struct_type(c, nullptr, "heddle_kernel_args", 13, args_fields)));
  }

  gcc_jit_field *data, *buffers, *statics, *part, *num_parts, *trace, *trace_context;
  gcc_jit_field *status, *code, *stop;
  gcc_jit_type *trace_type, *args_ptr, *status_type;
  gcc_jit_type* word;  ///< the stop word's type
};

/// Reads heddle_kernel_args::stop in a kernel with stop checks. Functions end the block that they
/// are given; code continues in the block that they return.
class GccjitStopWord {
 public:
  GccjitStopWord(GccjitContext& in, const KernelAbi& abi, gcc_jit_rvalue* args,
                 gcc_jit_block*& block)
      : in_(in), abi_(abi), args_(args), function_(gcc_jit_block_get_function(block)) {
    gcc_jit_lvalue* never = variable(abi.word, "never");  // used where there is no stop word
    gcc_jit_block_add_assignment(block, nullptr, never, in.integer(DType::u32, 0));
    word_ = variable(gcc_jit_type_get_pointer(abi.word), "stop");
    gcc_jit_block_add_assignment(block, nullptr, word_, argument(abi.stop));
    gcc_jit_block* without = new_block();
    gcc_jit_block* with = new_block();
    gcc_jit_block_end_with_conditional(block, nullptr, in.is_null(argument(abi.stop)), without,
                                       with);
    gcc_jit_block_add_assignment(without, nullptr, word_,
                                 gcc_jit_lvalue_get_address(never, nullptr));
    gcc_jit_block_end_with_jump(without, nullptr, with);
    block = with;
    stopped_ = new_block();
  }

  /// The relaxed load of emit/c.cpp. Through a pointer to volatile, libgccjit 12 makes a plain
  /// load, of which a loop keeps only the first.
  gcc_jit_block* check(gcc_jit_block* block) {
    gcc_jit_function* load = gcc_jit_context_get_builtin_function(in_.get(), "__atomic_load_4");
    gcc_jit_type* place =
        gcc_jit_rvalue_get_type(gcc_jit_param_as_rvalue(gcc_jit_function_get_param(load, 0)));
    gcc_jit_rvalue* args[] = {in_.cast(gcc_jit_lvalue_as_rvalue(word_), place),
                              in_.integer(DType::i32, __ATOMIC_RELAXED)};
    gcc_jit_rvalue* value = gcc_jit_context_new_call(in_.get(), nullptr, load, 2, args);
    gcc_jit_type* integer = gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_LONG);
    gcc_jit_rvalue* zero = gcc_jit_context_zero(in_.get(), integer);
    gcc_jit_rvalue* word = in_.cast(in_.cast(value, abi_.word), integer);
    gcc_jit_rvalue* set = in_.compare(GCC_JIT_COMPARISON_NE, taken_as(word, zero), zero);
    gcc_jit_block* next = new_block();
    gcc_jit_block_end_with_conditional(block, nullptr, set, stopped_, next);
    return next;
  }

  /// A loop from `from` to `to` with a check every `period` iterations: run(block, from, to) makes
  /// the loop over the iterations in between, and returns the block that it ends with.
  template <class Run>
  gcc_jit_block* loop(gcc_jit_block* block, gcc_jit_rvalue* from, gcc_jit_rvalue* to,
                      std::int64_t period, const Run& run) {
    gcc_jit_type* index = in_.type(DType::i64);
    gcc_jit_lvalue *at = variable(index, "at"), *end = variable(index, "end"),
                   *next = variable(index, "next");
    const auto value = [](gcc_jit_lvalue* v) { return gcc_jit_lvalue_as_rvalue(v); };
    const auto minus = [&](gcc_jit_rvalue* a, gcc_jit_rvalue* b) {
      gcc_jit_type* wide = in_.type(DType::u64);  // the difference of any two values fits
      return in_.binary(GCC_JIT_BINARY_OP_MINUS, DType::u64, in_.cast(a, wide), in_.cast(b, wide));
    };
    gcc_jit_block *head = new_block(), *body = new_block(), *part = new_block(),
                  *inner = new_block(), *after = new_block();
    gcc_jit_block_add_assignment(block, nullptr, at, from);
    gcc_jit_block_add_assignment(block, nullptr, end, to);
    gcc_jit_block_end_with_jump(block, nullptr, head);
    gcc_jit_block_end_with_conditional(
        head, nullptr, in_.compare(GCC_JIT_COMPARISON_LT, value(at), value(end)), body, after);
    body = check(body);
    gcc_jit_block_add_assignment(body, nullptr, next, value(end));
    gcc_jit_block_end_with_conditional(
        body, nullptr,
        in_.compare(GCC_JIT_COMPARISON_GT, minus(value(end), value(at)),
                    in_.integer(DType::u64, period)),
        part, inner);
    gcc_jit_block_add_assignment(
        part, nullptr, next,
        in_.binary(GCC_JIT_BINARY_OP_PLUS, DType::i64, value(at), in_.integer(DType::i64, period)));
    gcc_jit_block_end_with_jump(part, nullptr, inner);
    inner = run(inner, value(at), value(next));
    gcc_jit_block_add_assignment(inner, nullptr, at, value(next));
    gcc_jit_block_end_with_jump(inner, nullptr, head);
    return after;
  }

  /// Begins the block of the kernel's last statements, which run whether it was stopped or not.
  gcc_jit_block* end(gcc_jit_block* block) {
    gcc_jit_block* told = new_block();
    gcc_jit_block* done = new_block();
    gcc_jit_block_end_with_jump(block, nullptr, done);
    gcc_jit_block_end_with_conditional(stopped_, nullptr, in_.is_null(argument(abi_.status)), done,
                                       told);
    gcc_jit_block_add_assignment(
        told, nullptr, gcc_jit_rvalue_dereference_field(argument(abi_.status), nullptr, abi_.code),
        in_.integer(DType::i32, HEDDLE_KERNEL_STOPPED));
    gcc_jit_block_end_with_jump(told, nullptr, done);
    return done;
  }

 private:
  /// Tells the compiler the condition's likely value, as CDialect::check_stop() does.
  gcc_jit_rvalue* taken_as(gcc_jit_rvalue* value, gcc_jit_rvalue* constant) {
    gcc_jit_function* expect =
        gcc_jit_context_get_builtin_function(in_.get(), "__builtin_expect_with_probability");
    gcc_jit_rvalue* args[] = {
        value, constant,
        gcc_jit_context_one(in_.get(), gcc_jit_context_get_type(in_.get(), GCC_JIT_TYPE_DOUBLE))};
    return gcc_jit_context_new_call(in_.get(), nullptr, expect, 3, args);
  }
  gcc_jit_block* new_block() { return gcc_jit_function_new_block(function_, nullptr); }
  gcc_jit_lvalue* variable(gcc_jit_type* type, const char* name) {
    return gcc_jit_function_new_local(function_, nullptr, type, name);
  }
  gcc_jit_rvalue* argument(gcc_jit_field* field) {
    return gcc_jit_lvalue_as_rvalue(gcc_jit_rvalue_dereference_field(args_, nullptr, field));
  }

  GccjitContext& in_;
  const KernelAbi& abi_;
  gcc_jit_rvalue* args_;
  gcc_jit_function* function_;
  gcc_jit_lvalue* word_ = nullptr;
  gcc_jit_block* stopped_ = nullptr;
};

}  // namespace heddle::jit
