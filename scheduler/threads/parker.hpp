// Parker: puts a thread to sleep until another thread leaves a token. park: the owner; unpark: any
// thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

class Parker {
 public:
  using Clock = std::chrono::steady_clock;

  /// Sleeps until there is a token, then takes it. false: the deadline passed first.
  bool park(std::optional<Clock::time_point> deadline = {}) noexcept;
  /// Leaves a token and wakes the owner if it sleeps. A second token before the first is taken has
  /// no effect.
  void unpark() noexcept;

 private:
  std::atomic<std::uint32_t> token_{0};
};

}  // namespace heddle::sched
