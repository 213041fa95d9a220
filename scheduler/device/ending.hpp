// Ending: how tickets of a device end, and what follows from it: bad ends, poison, counters,
// callbacks. The completer: the consumer, or, of a device that has tasks in flight, whichever
// thread ends the next (LateEnds).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string>

#include "heddle/scheduler.hpp"
#include "scheduler/device/control.hpp"
#include "scheduler/device/identity.hpp"
#include "scheduler/device/running_task.hpp"
#include "scheduler/device/task_trace.hpp"
#include "scheduler/device/task_waits.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::sched {

/// One writer at a time, so a plain add.
inline void count(std::atomic<std::uint64_t>& counter) noexcept {
  // relaxed: pairs with the relaxed loads of threads that show it; numbers for people, ordering
  // nothing.
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

class Ending {
 public:
  Ending(const Identity& device, Control& control, Lane<>& lane, const RunningTask& running,
         TaskTrace& trace, TaskWaits& waits) noexcept
      : device_(device),
        control_(control),
        lane_(lane),
        running_(running),
        trace_(trace),
        waits_(waits) {}

  /// The task ran, and its callable is gone.
  void done(std::uint64_t ticket) noexcept { finish(ticket, trace::Ended::done); }
  /// The task ran, and threw or returned `result`.
  void failed(std::uint64_t ticket, const TaskNote& note, Status result) noexcept;
  /// What it came after did not let it run: the task is skipped alone, but a wait of the device
  /// poisons it (S8).
  void refused(std::uint64_t ticket, const TaskNote& note, const Status& why) noexcept;
  /// The task is not to run: skipped as the device is poisoned, or cancelled.
  void drop(std::uint64_t ticket, End end, const Status& why) noexcept;
  /// Somebody waits for what ended. Callbacks are no part of the next task.
  void call_back(std::uint64_t ticket) noexcept;

  /// Why the task cannot run, or count, for the first heeded of these that ended badly; ok: all
  /// that have ended did so well.
  [[nodiscard]] Status refusal_by(std::span<const Awaited> after, std::uint64_t ticket,
                                  const TaskNote& note) const noexcept;
  /// "device 'work' task 'step' (ticket 7, submitted at main.cpp:12)"
  [[nodiscard]] std::string describe(const char* label, std::uint64_t ticket,
                                     const TaskNote& note) const;
  /// Those that did not end well.
  void show(Counters& counters) const noexcept;

 private:
  void end_badly(std::uint64_t ticket, const TaskNote& note, const Status& why,
                 bool poison) noexcept;
  void leave_out(std::uint64_t ticket, End end, const Status& why, bool alone) noexcept;
  void destroy(std::uint64_t ticket) noexcept;
  void finish(std::uint64_t ticket, trace::Ended ended) noexcept;

  const Identity& device_;
  Control& control_;
  Lane<>& lane_;
  const RunningTask& running_;
  TaskTrace& trace_;
  TaskWaits& waits_;
  std::atomic<std::uint64_t> failed_{0}, skipped_{0}, cancelled_{0};
};

}  // namespace heddle::sched
