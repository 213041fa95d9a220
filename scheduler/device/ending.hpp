// Ending: ends the tickets of a device, with the consequences: bad ends, poison, counters,
// callbacks. Called by the completer: the consumer, or, for a device with tasks in flight, the
// thread that ends the next ticket (LateEnds).
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

/// There is a single writer at a time: a plain add suffices.
inline void count(std::atomic<std::uint64_t>& counter) noexcept {
  // relaxed: pairs with the relaxed loads of threads that show the counter; the number orders no
  // memory.
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

  /// The task ran, and its callable is destroyed.
  void done(std::uint64_t ticket) noexcept { finish(ticket, trace::Ended::done); }
  /// The task ran, and threw or returned `result`.
  void failed(std::uint64_t ticket, const TaskNote& note, Status result) noexcept;
  /// A predecessor did not let the task run: the task is skipped alone, except that a skipped wait
  /// of the device poisons the device (S8).
  void refused(std::uint64_t ticket, const TaskNote& note, const Status& why) noexcept;
  /// The task must not run: skipped because the device is poisoned, or cancelled.
  void drop(std::uint64_t ticket, End end, const Status& why) noexcept;
  /// Wakes the threads that wait for the ended ticket and runs callbacks. Callbacks are not part of
  /// the next task.
  void call_back(std::uint64_t ticket) noexcept;

  /// Why the task cannot run, or not count as done: the first predecessor in `after` with a bad end
  /// and with required values (its entry is heeded). ok: every ended predecessor has ended well.
  [[nodiscard]] Status refusal_by(std::span<const Awaited> after, std::uint64_t ticket,
                                  const TaskNote& note) const noexcept;
  /// "device 'work' task 'step' (ticket 7, submitted at main.cpp:12)"
  [[nodiscard]] std::string describe(const char* label, std::uint64_t ticket,
                                     const TaskNote& note) const;
  /// Shows the numbers of tickets that did not end well.
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
