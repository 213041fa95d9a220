// Timers: callbacks at points in time, for runners. Any thread; the thread that watches the time
// calls run_due().
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

#include "heddle/scheduler.hpp"

namespace heddle::sched {

class Timers {
 public:
  using Clock = Event::Clock;

  /// `earlier` is set to true if the new timer is due first, and the watching thread should know.
  /// Throws std::bad_alloc.
  std::uint64_t add(Clock::time_point when, std::function<void()> callback, bool& earlier);
  /// Removes a callback added for `when`. The callback does not begin after this call (it may have
  /// run).
  void remove(Clock::time_point when, std::uint64_t call) noexcept;
  /// Runs the callbacks that are due; returns whether there was one.
  bool run_due(Clock::time_point now) noexcept;
  /// When the next callback is due; Clock::time_point::max() without callbacks.
  [[nodiscard]] Clock::time_point next() const noexcept {
    // seq_cst: pairs with the store in note_next(): a thread that is about to sleep sees a new
    // timer, or the thread that adds the timer sees the sleeper (modes/sleepers.hpp).
    return Clock::time_point(Clock::duration(next_.load(std::memory_order_seq_cst)));
  }

 private:
  void note_next() noexcept;

  std::mutex mutex_;  // guards the members below
  std::map<std::pair<Clock::time_point, std::uint64_t>, std::function<void()>> calls_;
  std::uint64_t last_ = 0;
  std::atomic<Clock::rep> next_{Clock::time_point::max().time_since_epoch().count()};
};

}  // namespace heddle::sched
