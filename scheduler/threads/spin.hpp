// Spinning: polling a condition for a while. Any thread.
#pragma once

#include <sched.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

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
/// processors, one of them may have to do the work that the rest waits for. `pauses()`: the least
/// number of pauses before `done()` can hold. Each poll fetches a line that another thread writes,
/// and slows that thread down.
template <class Done, class Pauses>
[[nodiscard]] bool spin_until(const Done& done, std::chrono::nanoseconds spin,
                              const Pauses& pauses) noexcept {
  using Clock = std::chrono::steady_clock;
  if (done()) return true;
  if (spin.count() <= 0) return false;
  // keeps sums from overflowing
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24);
  const auto end = Clock::now() + std::min(spin, longest);
  while (true) {
    for (std::uint64_t left = tuning::spins_per_clock_read; left > 0;) {
      if (done()) return true;
      const std::uint64_t some = std::clamp<std::uint64_t>(pauses(), 1, left);
      for (std::uint64_t k = 0; k < some; ++k) cpu_relax();
      left -= some;
    }
    if (Clock::now() >= end) return done();
    ::sched_yield();
  }
}
template <class Done>
[[nodiscard]] bool spin_until(const Done& done, std::chrono::nanoseconds spin) noexcept {
  return spin_until(done, spin, [] { return std::uint64_t{1}; });
}

}  // namespace heddle::sched
