// The beginning of units in C. It must match kernel.h; units are self-contained, so that no include
// path is needed.
#pragma once

#include <cstddef>
#include <string_view>

#include "heddle/kernel.h"

namespace heddle::jit {

inline constexpr std::string_view c_prelude = R"(typedef _Bool bool;
typedef __UINT8_TYPE__ u8;
typedef __INT8_TYPE__ i8;
typedef __UINT16_TYPE__ u16;
typedef __INT16_TYPE__ i16;
typedef __INT32_TYPE__ i32;
typedef __UINT32_TYPE__ u32;
typedef __INT64_TYPE__ i64;
typedef __UINT64_TYPE__ u64;
typedef float f32;
typedef double f64;

typedef struct { void* data; u64 bytes; } heddle_kernel_buffer;
typedef struct { i32 code; i32 detail; } heddle_kernel_status;
typedef struct {
  u32 struct_size;
  u32 abi;
  const heddle_kernel_buffer* buffers;
  u32 num_buffers;
  u32 num_statics;
  const i64* statics;
  u32 part;
  u32 num_parts;
  const i64* dims;
  heddle_kernel_status* status;
  void (*trace)(void* context, u32 statement, u32 entry, i64 offset, f64 before, f64 after);
  void* trace_context;
  const u32* stop;
} heddle_kernel_args;
#define EXPORT __attribute__((visibility("default")))
#define INLINE static inline __attribute__((always_inline))
#if defined(__x86_64__)
#define FLOAT_REGISTER "x"
#elif defined(__aarch64__)
#define FLOAT_REGISTER "w"
#elif defined(__riscv)
#define FLOAT_REGISTER "f"
#else
#define FLOAT_REGISTER "m"
#endif
)";
static_assert(HEDDLE_KERNEL_ABI == 2 && sizeof(heddle_kernel_args) == 80 &&
                  offsetof(heddle_kernel_args, buffers) == 8 &&
                  offsetof(heddle_kernel_args, statics) == 24 &&
                  offsetof(heddle_kernel_args, part) == 32 &&
                  offsetof(heddle_kernel_args, trace) == 56 &&
                  offsetof(heddle_kernel_args, stop) == 72,
              "the prelude repeats kernel.h");

}  // namespace heddle::jit
