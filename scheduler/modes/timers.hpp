// Timers: callbacks at points in time, for runners. Any thread; whoever keeps the time calls
// run_due().
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

  /// true in `earlier`: it is due before all others, and the thread that keeps the time should
  /// know. Throws std::bad_alloc.
  std::uint64_t add(Clock::time_point when, std::function<void()> callback, bool& earlier);
  /// Takes back what was added for `when`. After this it will not begin (it may have run).
  void remove(Clock::time_point when, std::uint64_t call) noexcept;
  /// Calls back what is due; whether there was any.
  bool run_due(Clock::time_point now) noexcept;
  /// When the next one is due; Clock::time_point::max() when none is.
  [[nodiscard]] Clock::time_point next() const noexcept {
    // seq_cst: pairs with the store in note_next(): a thread that is about to sleep sees a new
    // timer, or its adder the sleeper (modes/sleepers.hpp).
    return Clock::time_point(Clock::duration(next_.load(std::memory_order_seq_cst)));
  }

 private:
  void note_next() noexcept;

  std::mutex mutex_;  // guards what follows
  std::map<std::pair<Clock::time_point, std::uint64_t>, std::function<void()>> calls_;
  std::uint64_t last_ = 0;
  std::atomic<Clock::rep> next_{Clock::time_point::max().time_since_epoch().count()};
};

}  // namespace heddle::sched
