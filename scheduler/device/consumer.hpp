// Consumer: runs, skips or cancels the tasks of a device in order: step(), on the device's own
// worker thread or in turns on threads that its runner finds. One thread at a time.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "heddle/scheduler.hpp"
#include "scheduler/device/admission.hpp"
#include "scheduler/device/control.hpp"
#include "scheduler/device/ending.hpp"
#include "scheduler/device/identity.hpp"
#include "scheduler/device/late_ends.hpp"
#include "scheduler/device/running_task.hpp"
#include "scheduler/device/summons.hpp"
#include "scheduler/device/task_trace.hpp"
#include "scheduler/device/task_waits.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

struct TaskContext;

class alignas(tuning::line_bytes) Consumer {
 public:
  Consumer(const Identity& device, Admission& admission, Summons& summons, Control& control,
           Drain& drain);

  /// The loop of the worker thread.
  void work() noexcept;
  /// A turn on `fiber` (null: on the thread's own stack): ends up to `tasks_max` tasks. true: tasks
  /// may remain, and the caller arranges the next turn. false: the next look() arranges a turn. The
  /// caller keeps the device alive.
  [[nodiscard]] bool take_turn(Fiber* fiber, std::uint32_t tasks_max) noexcept;
  /// A turn for a single task that never waits (TaskOps::never_waits), on the thread's own stack.
  /// true: the turn is over. false: take_turn() must follow, on a fiber, as other tasks may be
  /// queued, or code of the user is to be called.
  [[nodiscard]] bool take_short_turn() noexcept;
  [[nodiscard]] TaskWaits& waits() noexcept { return waits_; }
  /// Null on devices that end tasks as they run them.
  [[nodiscard]] LateEnds* late_ends() noexcept { return late_ends_.get(); }

  // Any thread.

  [[nodiscard]] const RunningTask& running() const noexcept { return running_; }
  /// The last ticket that the consumer has ended or, on devices that have tasks in flight, begun.
  [[nodiscard]] std::uint64_t at() const noexcept {
    return late_ends_ ? late_ends_->begun() : device_.timeline->completed();
  }
  /// Shows the running task. Called only if the device has tasks.
  void show(Snapshot& snapshot) const;
  /// Shows how tickets ended, and the worker's parks and spins.
  void show(Counters& counters) const noexcept;

 private:
  [[nodiscard]] std::uint32_t step(TaskContext& context, std::uint32_t tasks_max) noexcept;
  template <bool traced>
  [[nodiscard]] std::uint32_t step_plainly(TaskContext& context, std::uint32_t tasks_max) noexcept;
  [[nodiscard]] std::uint32_t step_carefully(TaskContext& context) noexcept;
  [[nodiscard]] bool look_closely(std::uint64_t ticket, const TaskNote& note) noexcept;
  void run_closely(std::uint64_t ticket, const TaskNote& note) noexcept;
  void drop(std::uint64_t ticket, End end, const Status& why) noexcept;
  void refuse(std::uint64_t ticket, const TaskNote& note, Status why) noexcept;
  void pass_over(std::uint64_t ticket) noexcept;
  [[nodiscard]] bool may_begin(std::uint64_t ticket) noexcept;
  void begin_late(std::uint64_t ticket) noexcept;
  void issue(std::uint64_t ticket, Status planted) noexcept;
  [[nodiscard]] bool gate_open(std::uint64_t ticket, const TaskNote& note,
                               Status& refusal) noexcept;
  [[nodiscard]] bool pass_gate(std::uint64_t ticket, const TaskNote& note, const Awaited& each,
                               const Event& until, Status& refusal) noexcept;
  [[nodiscard]] bool look_around(std::uint64_t ticket) noexcept;
  void end_short_turn(TaskContext& context) noexcept;
  void give_start(std::uint64_t row) noexcept;

  RunningTask running_;
  TaskTrace trace_;
  TaskWaits waits_;
  const std::unique_ptr<LateEnds> late_ends_;
  Ending ending_;
  std::atomic<std::uint64_t> parks_{0}, spins_{0};
  Status failure_;  // the failure of the task that ran
  // how the task of a short turn ended, for the turn that follows
  enum class Short : std::uint8_t { none, failed, has_waiters } short_ = Short::none;
  // the latest ticket with predecessors that the hardware waits for
  std::uint64_t handed_over_ = 0;

  const Identity& device_;
  Lane<>& lane_;
  Summons& summons_;
  Control& control_;
  Drain& drain_;
};

}  // namespace heddle::sched
