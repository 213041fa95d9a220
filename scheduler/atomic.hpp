// The seam for model checkers: lock-free templates take an Env, which defines atomics, barriers and
// arrays of atomics. StdEnv is the shipped Env.
#pragma once

#include <atomic>

#include "scheduler/barrier.hpp"
#include "scheduler/zeroed.hpp"

namespace heddle::sched {

/// Marks the caller's loop as a spin loop for the processor.
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
  // As text: compilers emit the instruction only for processors known to support it; other
  // processors ignore it.
  asm volatile("prefetchw %0" : : "m"(*static_cast<const char*>(line)));
#else
  __builtin_prefetch(line, 1);
#endif
}

struct StdEnv {
  template <class T>
  using atomic = std::atomic<T>;
  /// An array of many elements with atomics.
  template <class T>
  using array = ZeroedArray<T>;
  static bool asymmetric() noexcept { return asymmetric_barriers(); }
  static void light_barrier() noexcept { sched::light_barrier(); }
  static void heavy_barrier() noexcept { sched::heavy_barrier(); }
  /// Called in a loop of a waiting thread.
  static void relax() noexcept { cpu_relax(); }
};

}  // namespace heddle::sched
