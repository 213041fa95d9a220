// The seam for model checkers: lock-free templates take an Env, which says what an atomic is.
// StdEnv is the shipped one.
#pragma once

#include <atomic>

namespace heddle::sched {

struct StdEnv {
  template <class T>
  using atomic = std::atomic<T>;
};

/// Tells the processor that this is a spin loop.
inline void cpu_relax() noexcept {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace heddle::sched
