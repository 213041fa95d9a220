// Spinning: polling a condition for a while. Any thread.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// The part of `spin` that remains before `deadline`.
[[nodiscard]] inline std::chrono::nanoseconds spin_before(
    std::chrono::steady_clock::time_point deadline, std::chrono::nanoseconds spin) noexcept {
  const auto now = std::chrono::steady_clock::now();
  return deadline <= now ? std::chrono::nanoseconds(0) : std::min(spin, deadline - now);
}

/// Polls until `done()` or until `spin` has passed; returns whether `done()` held. After about the
/// first microsecond the thread yields its processor between polls: with more spinning threads than
/// processors, one of them may have to do the work that the rest waits for.
template <class Done>
[[nodiscard]] bool spin_until(const Done& done, std::chrono::nanoseconds spin) noexcept {
  using Clock = std::chrono::steady_clock;
  if (done()) return true;
  if (spin.count() <= 0) return false;
  // keeps sums from overflowing
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24);
  const auto end = Clock::now() + std::min(spin, longest);
  while (true) {
    for (int k = 0; k < tuning::spins_per_clock_read; ++k) {
      if (done()) return true;
      cpu_relax();
    }
    if (Clock::now() >= end) return done();
    ::sched_yield();
  }
}

}  // namespace heddle::sched
