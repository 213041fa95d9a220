// TaskWaits: the waits of a device's consumer: the waits of the running task, and the waits of the
// next task's gate. For the consumer.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>

#include "heddle/scheduler.hpp"
#include "scheduler/device/control.hpp"
#include "scheduler/device/identity.hpp"
#include "scheduler/device/task_trace.hpp"
#include "scheduler/device/waiting.hpp"

namespace heddle::sched {

class Drain;
class Fiber;

class TaskWaits {
 public:
  using Deadline = Runner::Deadline;

  TaskWaits(const Identity& device, Control& control, const Drain& drain, TaskTrace& trace) noexcept
      : device_(device), control_(control), drain_(drain), trace_(trace) {}

  /// See wait_here(): inside a task of this device.
  [[nodiscard]] Waited in_task(const Event& event, Deadline deadline, bool heeds_stop) noexcept;
  /// Waits for `event`, a predecessor of the next task, or for `until`, which stands for it;
  /// nullopt: still pending, and the device will look again.
  [[nodiscard]] std::optional<Waited> at_gate(const Event& event, const Event& until) noexcept;
  /// Waits for an earlier ticket of this device that must end before the next ticket begins; false:
  /// still pending, and the device will look again. The wait has no other way to end.
  [[nodiscard]] bool for_own(const Event& event) noexcept;
  /// The gate is passed, or given up.
  void leave_gate() noexcept;
  /// Why the latest wait was refused.
  [[nodiscard]] Status take_refusal() noexcept { return std::exchange(refusal_, {}); }

 private:
  class Shown;
  class InGraph;
  /// Reasons to end a wait before its event is done; `timed`: the user set the deadline.
  struct Limits {
    Deadline deadline;
    bool timed = false;
    bool heeds_stop = true;
  };
  /// The event of the next task's gate that will make this device look again.
  struct Armed {
    Event event;
    Event until;  ///< `event`, or its substitute
    std::uint64_t call = 0;
    std::uint64_t since = 0;  ///< when the event was first found pending; 0: not traced
  };

  [[nodiscard]] std::optional<Waited> suspend(Fiber& fiber, const Event& event,
                                              const Limits& limits) noexcept;
  [[nodiscard]] Waited sleep(const Event& event, const Event& until, const Limits& limits) noexcept;
  [[nodiscard]] Waited refuse_memory(const Event& event) noexcept;
  [[nodiscard]] std::optional<Waited> arm(const Event& event, const Event& until) noexcept;
  /// The time at which a traced wait begins; 0: not traced.
  [[nodiscard]] std::uint64_t stamp() const noexcept;

  const Identity& device_;
  Control& control_;
  const Drain& drain_;
  TaskTrace& trace_;
  Status refusal_;  // why the latest wait that would have closed a cycle failed
  Armed armed_;
};

}  // namespace heddle::sched
