// See emit/cuda.hpp.
#include "jit/emit/cuda.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "heddle/kernel.h"
#include "heddle/status.hpp"
#include "jit/emit/cuda_dialect.hpp"
#include "jit/emit/walk.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {
namespace {

/// The beginning of units: types by their sizes, and functions of C compilers by NVRTC's names.
/// WIDE defines a piece of `count` elements, and accesses by numbers of pieces: a single access of
/// memory where arrays are aligned. SHARED_COPY begins a copy to shared memory, which has ended,
/// for the thread that began it, after wait_for_copies() (PTX ISA, "Data Movement and Conversion
/// Instructions: Asynchronous copy"); before compute capability 8.0 it ends at once. A compiler
/// that checks accesses of threads defines its own SHARED and the macros of accesses.
constexpr std::string_view cuda_prelude = R"(typedef unsigned char u8;
typedef signed char i8;
typedef unsigned short u16;
typedef short i16;
typedef int i32;
typedef unsigned int u32;
typedef long long i64;
typedef unsigned long long u64;
typedef float f32;
typedef double f64;

struct heddle_kernel_status { i32 code; i32 detail; };
#define KERNEL extern "C" __global__ void
#define GLOBAL
#define INLINE static __device__ __forceinline__
#ifndef SHARED
#define SHARED(type, name, count) __shared__ __align__(16) type name[count]
#define SHARED_LOAD(type, name, at) (((const type*)name)[at])
#define SHARED_STORE(type, name, at, value) (((type*)name)[at] = value)
#define SHARED_COPY(type, name, at, from, place) \
  begin_copy((type*)name + (at), (const type*)from + (place))
#define WIDE_AT(type, from, at) (((type*)(from))[at])
template <class T> INLINE void begin_copy(T* to, const T* from) {
#if __CUDA_ARCH__ >= 800
  const u32 place = (u32)__cvta_generic_to_shared(to);
  if (sizeof(T) == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" :: "r"(place), "l"(from) : "memory");
  } else {
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2;"
                 :: "r"(place), "l"(from), "n"((int)sizeof(T)) : "memory");
  }
#else
  *to = *from;
#endif
}
INLINE void wait_for_copies() {
#if __CUDA_ARCH__ >= 800
  asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}
#endif
#define WIDE(type, count, bytes)                                                              \
  struct __align__(bytes) type##x##count { type at[count]; };                                 \
  INLINE type##x##count load_##type##x##count(const type* from, i64 at, bool aligned) {       \
    if (aligned) return WIDE_AT(const type##x##count, from, at);                              \
    type##x##count value;                                                                     \
    for (int k = 0; k < count; ++k) value.at[k] = from[count * at + k];                       \
    return value;                                                                             \
  }                                                                                           \
  INLINE void store_##type##x##count(type* to, i64 at, type##x##count value, bool aligned) {  \
    if (aligned) {                                                                            \
      WIDE_AT(type##x##count, to, at) = value;                                                \
    } else {                                                                                  \
      for (int k = 0; k < count; ++k) to[count * at + k] = value.at[k];                       \
    }                                                                                         \
  }
#define __builtin_nanf(text) __int_as_float(0x7fc00000)
#define __builtin_nan(text) __longlong_as_double(0x7ff8000000000000ll)
#define __builtin_inff() __int_as_float(0x7f800000)
#define __builtin_inf() __longlong_as_double(0x7ff0000000000000ll)
#define __builtin_fabsf fabsf
#define __builtin_fabs fabs
#define __builtin_fmaf fmaf
#define __builtin_fma fma
#define __builtin_sqrtf sqrtf
#define __builtin_sqrt sqrt
#define __builtin_rintf rintf
#define __builtin_rint rint
#define __builtin_floorf floorf
#define __builtin_floor floor
#define __builtin_ceilf ceilf
#define __builtin_ceil ceil
#define __builtin_truncf truncf
#define __builtin_trunc trunc
)";

/// The end of a traced unit's prelude: values go through a ring in host memory (TraceRing of
/// devices/cuda_trace.hpp), whose address stands behind the kernel's status and stop word.
constexpr std::string_view trace_prelude = R"(
struct traced_value { u32 statement, entry; i64 offset; f64 before, after; };
struct traced_values { volatile u64 written, taken; traced_value ring[1024]; };
INLINE void tell(heddle_kernel_status* status, u32 statement, u32 entry, i64 offset, f64 before,
                 f64 after) {
  traced_values* const values = *(traced_values**)((char*)status + 16);
  if (values == 0) return;
  const u64 number = values->written;
  while (number - values->taken >= 1024) {
    if (((volatile u32*)status)[3] != 0) return;  // nobody takes values any more
  }
  const traced_value value = {statement, entry, offset, before, after};
  values->ring[number % 1024] = value;
  __threadfence_system();
  values->written = number + 1;
}
)";

/// The most groups on a grid's first axis; kernels loop over further groups themselves.
constexpr std::int64_t groups_max = 0x7fffffff;

/// The groups of all parallel loops of a nest together, and the most threads of nested block loops
/// in it.
void measure(const Stmt& stmt, Int128 groups, std::int64_t threads, Int128& most_groups,
             std::int64_t& most_threads) {
  if (stmt.kind != StmtKind::loop) return;
  const std::int64_t extent = std::max<std::int64_t>(stmt.to - stmt.from, 0);
  if (stmt.mark == LoopMark::block) {
    threads *= extent;
    most_threads = std::max(most_threads, threads);
  }
  if (stmt.mark == LoopMark::parallel) {
    groups = std::min<Int128>(groups * extent, groups_max);
    most_groups = std::max(most_groups, groups);
  }
  for (const StmtPtr& inner : stmt.body)
    measure(*inner, groups, threads, most_groups, most_threads);
}

}  // namespace

LaunchShape launch_shape(const Loop& kernel) {
  Int128 groups = 1;
  std::int64_t threads = 1;
  for (const StmtPtr& stmt : kernel.body) measure(*stmt, 1, 1, groups, threads);
  if (threads > 1) threads = (threads + warp_threads - 1) / warp_threads * warp_threads;
  LaunchShape shape;
  shape.groups[0] = static_cast<std::uint32_t>(groups);
  shape.threads[0] = static_cast<std::uint32_t>(threads);
  return shape;
}

std::string emit_cuda(const CompileUnit& unit, const Target& target) {
  std::string prelude(cuda_prelude);
  if (unit.trace_values) prelude += trace_prelude;
  return emit_groups(unit, target, prelude);
}

std::string emit_groups(const CompileUnit& unit, const Target& target, std::string_view prelude) {
  check_unit(unit);
  CPrimitives primitives;
  CVectors vectors(Target{});
  std::set<std::string> wide;
  std::string kernels;
  for (const KernelSource& kernel : unit.kernels) {
    CudaDialect to(kernel.loop, primitives, vectors, wide, kernels);
    Walk(kernel, target, unit.trace_values, to).emit();
  }
  return fmt::format("// unit {}: generated by heddle, kernel ABI {}\n{}\n{}{}{}",
                     comment_text(unit.name), HEDDLE_KERNEL_ABI, prelude, fmt::join(wide, ""),
                     primitives.definitions(), kernels);
}

}  // namespace heddle::jit
