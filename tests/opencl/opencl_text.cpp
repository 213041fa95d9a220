// See opencl_text.hpp.
#include "opencl/opencl_text.hpp"

#include <sstream>
#include <string_view>

#include "jit/emit/cuda.hpp"

namespace heddle::jit::testing {
namespace {

/// Tables of functions are not `static`, which OpenCL C 1.2 has no place for. PoCL 3.1 has no
/// work_group_any(): the host writes the stop word before a launch only, so all threads of a group
/// vote alike.
constexpr std::string_view opencl_prelude = R"(#pragma OPENCL FP_CONTRACT OFF
typedef uchar u8;
typedef char i8;
typedef ushort u16;
typedef short i16;
typedef int i32;
typedef uint u32;
typedef long i64;
typedef ulong u64;
typedef float f32;
typedef double f64;

typedef struct { i32 code; i32 detail; } heddle_kernel_status;
#define KERNEL __kernel void
#define GLOBAL __global
#define SHARED(type, name, count) __local type name[count]
#define SHARED_LOAD(type, name, at) (((__local const type*)name)[at])
#define SHARED_STORE(type, name, at, value) (((__local type*)name)[at] = value)
#define SHARED_COPY(type, name, at, from, place) \
  (((__local type*)name)[at] = ((__global const type*)from)[place])
#define wait_for_copies()
#define WIDE(type, count, bytes)                                                               \
  typedef struct { type at[count]; } __attribute__((aligned(bytes))) type##x##count;           \
  INLINE type##x##count load_##type##x##count(__global const type* from, i64 at,               \
                                              bool aligned) {                                  \
    if (aligned) return ((__global const type##x##count*)from)[at];                            \
    type##x##count value;                                                                      \
    for (int k = 0; k < count; ++k) value.at[k] = from[count * at + k];                        \
    return value;                                                                              \
  }                                                                                            \
  INLINE void store_##type##x##count(__global type* to, i64 at, type##x##count value,          \
                                     bool aligned) {                                           \
    if (aligned) {                                                                             \
      ((__global type##x##count*)to)[at] = value;                                              \
    } else {                                                                                   \
      for (int k = 0; k < count; ++k) to[count * at + k] = value.at[k];                        \
    }                                                                                          \
  }
#define INLINE __attribute__((always_inline))
#define static
#define threadIdx ((uint2)(get_local_id(0), 0))
#define blockIdx ((uint2)(get_group_id(0), 0))
#define blockDim ((uint2)(get_local_size(0), 0))
#define gridDim ((uint2)(get_num_groups(0), 0))
#define __syncthreads() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)
#define __syncwarp() __syncthreads()
#define __syncthreads_or(vote) (__syncthreads(), (vote))
#define __builtin_nanf(text) as_float(0x7fc00000)
#define __builtin_nan(text) as_double(0x7ff8000000000000l)
#define __builtin_inff() as_float(0x7f800000)
#define __builtin_inf() as_double(0x7ff0000000000000l)
#define __builtin_fabsf fabs
#define __builtin_fabs fabs
#define __builtin_fmaf fma
#define __builtin_fma fma
#define __builtin_sqrtf sqrt
#define __builtin_sqrt sqrt
#define __builtin_rintf rint
#define __builtin_rint rint
#define __builtin_floorf floor
#define __builtin_floor floor
#define __builtin_ceilf ceil
#define __builtin_ceil ceil
#define __builtin_truncf trunc
#define __builtin_trunc trunc
#define fmodf fmod
#pragma OPENCL EXTENSION cl_khr_int64_base_atomics : enable
#define ACCUMULATION(name, type) \
  INLINE __attribute__((overloadable)) void name(volatile __global type* at, type value)
ACCUMULATION(atomicAdd, i32) { atomic_add(at, value); }
ACCUMULATION(atomicAdd, u32) { atomic_add(at, value); }
ACCUMULATION(atomicAdd, u64) { atom_add(at, value); }
ACCUMULATION(atomicMin, i32) { atomic_min(at, value); }
ACCUMULATION(atomicMin, u32) { atomic_min(at, value); }
ACCUMULATION(atomicMax, i32) { atomic_max(at, value); }
ACCUMULATION(atomicMax, u32) { atomic_max(at, value); }
ACCUMULATION(atomicAdd, f32) {
  volatile __global u32* const word = (volatile __global u32*)at;
  u32 old;
  do old = *word;
  while (atomic_cmpxchg(word, old, as_uint(as_float(old) + value)) != old);
}
ACCUMULATION(atomicAdd, f64) {
  volatile __global u64* const word = (volatile __global u64*)at;
  u64 old;
  do old = *word;
  while (atom_cmpxchg(word, old, as_ulong(as_double(old) + value)) != old);
}
)";

/// OpenCL C declares the memory of a group at the beginning of the kernel.
std::string with_shared_first(const std::string& text) {
  std::string result;
  std::size_t body = 0;  // the place behind the kernel's head
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    line += '\n';
    if (line.find("  SHARED(") != std::string::npos) {
      result.insert(body, line);
      continue;
    }
    result += line;
    if (line.ends_with("* const stop) {\n")) body = result.size();
  }
  return result;
}

}  // namespace

std::string emit_opencl(const CompileUnit& unit, const Target& target) {
  return with_shared_first(emit_groups(unit, target, opencl_prelude));
}

}  // namespace heddle::jit::testing
