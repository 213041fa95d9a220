// TicketGuard: what else has to hold at the moment at which a task takes its ticket, for who builds
// on the scheduler. It is asked before the ticket is taken, so that a refusal costs none.
#pragma once

#include "heddle/scheduler.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::sched {

class TicketGuard {
 public:
  TicketGuard() = default;
  TicketGuard(const TicketGuard&) = delete;
  TicketGuard& operator=(const TicketGuard&) = delete;

  /// Before a ticket is taken: may lock, for leave() follows without a wait between. Notes what
  /// else the task has to come after. A failed status refuses the task, and nothing follows.
  [[nodiscard]] virtual Status enter(TaskNote& note) noexcept = 0;
  /// The task took that ticket and will be published; or (null) the queue is full, and enter() is
  /// asked again when it may not be. Unlocks.
  virtual void leave(const Event* taken) noexcept = 0;

  /// Submits a task that `from` constructs, as TaskDevice::submit() does.
  static Event submit(const TaskDevice& device, Label label, const TaskOps& ops, void* from,
                      const SubmitOptions& options, TicketGuard& guard) noexcept;

 protected:
  ~TicketGuard() = default;
  /// Of the task that runs on this thread, which ends later: its operations have a finish().
  [[nodiscard]] static Completion completion_of_running_task() noexcept {
    return Completion::of_running_task();
  }
};

}  // namespace heddle::sched
