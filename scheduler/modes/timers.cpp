// Timers in a map by time.
#include "scheduler/modes/timers.hpp"

#include "scheduler/device/timeline.hpp"

namespace heddle::sched {

void Timers::note_next() noexcept {
  const auto next = calls_.empty() ? Clock::time_point::max() : calls_.begin()->first.first;
  // seq_cst: pairs with the load in next().
  next_.store(next.time_since_epoch().count(), std::memory_order_seq_cst);
}

std::uint64_t Timers::add(Clock::time_point when, std::function<void()> callback, bool& earlier) {
  const std::lock_guard lock(mutex_);
  const auto entry = calls_.emplace(std::pair(when, ++last_), std::move(callback)).first;
  earlier = entry == calls_.begin();
  note_next();
  return last_;
}

void Timers::remove(Clock::time_point when, std::uint64_t call) noexcept {
  const std::lock_guard lock(mutex_);
  if (calls_.erase({when, call}) != 0) note_next();
}

bool Timers::run_due(Clock::time_point now) noexcept {
  bool any = false;
  while (next() <= now) {
    std::function<void()> callback;
    {
      const std::lock_guard lock(mutex_);
      if (calls_.empty() || calls_.begin()->first.first > now) break;
      callback = std::move(calls_.begin()->second);
      calls_.erase(calls_.begin());
      note_next();
    }
    Timeline::run_callback(callback);
    any = true;
  }
  return any;
}

}  // namespace heddle::sched
