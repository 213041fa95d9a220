// The seam for model checkers: lock-free templates take an Env, which says what an atomic, a
// barrier and an array of atomics is. StdEnv is the shipped one.
#pragma once

#include <atomic>

#include "scheduler/barrier.hpp"
#include "scheduler/zeroed.hpp"

namespace heddle::sched {

/// Tells the processor that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

/// A hint: the line will be written soon.
inline void prefetch_to_write(const void* line) noexcept {
#if defined(__x86_64__)
  // As text: compilers use it only for processors that are sure to heed it; others pass it by.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

struct StdEnv {
  template <class T>
  using atomic = std::atomic<T>;
  /// An array of many elements that hold atomics.
  template <class T>
  using array = ZeroedArray<T>;
  static bool asymmetric() noexcept { return asymmetric_barriers(); }
  static void light_barrier() noexcept { sched::light_barrier(); }
  static void heavy_barrier() noexcept { sched::heavy_barrier(); }
  /// Within a wait for another thread.
  static void relax() noexcept { cpu_relax(); }
};

}  // namespace heddle::sched
