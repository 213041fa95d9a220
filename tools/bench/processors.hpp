// Processors of a measurement: which there are, and which thread runs where. Any thread.
#pragma once

#include <vector>

namespace heddle::bench {

/// Numbers of the processors that the process could use when it started, at least one.
[[nodiscard]] const std::vector<int>& processors();

/// Binds the calling thread to the k-th of them (modulo their number).
void pin_this_thread(int k);

/// Where the roles of a measurement run: the host thread on the first processor, the worker on the
/// second.
inline constexpr int host_processor = 0;
inline constexpr int worker_processor = 1;

inline void spin_pause() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace heddle::bench
