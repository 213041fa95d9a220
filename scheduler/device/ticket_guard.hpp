// Tickets for upper layers, which build on the scheduler. TicketGuard: conditions to hold at the
// moment at which a task takes its ticket; the guard is asked before the ticket is taken, so that a
// refusal costs no ticket. PlainTicket: a fast-path submission in two short parts, for callers with
// data to record between them.
#pragma once

#include <cstdint>

#include "heddle/scheduler.hpp"
#include "scheduler/protocol/disturbances.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::sched {

class TicketGuard {
 public:
  TicketGuard() = default;
  TicketGuard(const TicketGuard&) = delete;
  TicketGuard& operator=(const TicketGuard&) = delete;

  /// Called before a ticket is taken. May lock, and keep the lock until leave(): no wait comes
  /// between the two calls. Adds further predecessors of the task to `note`. A failed status
  /// refuses the task, and leave() is not called.
  [[nodiscard]] virtual Status enter(TaskNote& note) noexcept = 0;
  /// The task took the ticket `taken` and will be published; or (null) the queue is full, and
  /// enter() is called again once the queue may have room. Unlocks.
  virtual void leave(const Event* taken) noexcept = 0;
  /// True if the task runs user code, which may wait inside the task.
  [[nodiscard]] virtual bool runs_host_code() const noexcept = 0;

  /// Submits a task that `from` constructs, as TaskDevice::submit() does.
  static Event submit(const TaskDevice& device, Label label, const TaskOps& ops, void* from,
                      const SubmitOptions& options, TicketGuard& guard) noexcept;

  /// The Completion that will end the current task of this thread. The task's operations must have
  /// a finish().
  [[nodiscard]] static Completion completion_of_running_task() noexcept {
    return Completion::of_running_task();
  }

 protected:
  ~TicketGuard() = default;
};

/// The device's cancel epoch (see Disturbances), read before a ticket is taken. If undisturbed() is
/// true for the epochs of an earlier task and of a new task of the device, the submitter of the new
/// task may assume that the earlier task ends well, or that the new task is skipped.
[[nodiscard]] std::uint64_t disturbances(const TaskDevice& device) noexcept;
/// Called after the ticket was taken. True if the assumption does not hold, because the cancel
/// epoch has changed since `before`.
[[nodiscard]] bool disturbed_since(const TaskDevice& device, std::uint64_t before) noexcept;
/// True if the assumption holds between two tasks: `one` is the epoch at the earlier task, `other`
/// the epoch at the later task.
[[nodiscard]] constexpr bool undisturbed(std::uint64_t one, std::uint64_t other) noexcept {
  return one == other && Disturbances<>::is_quiet(one);
}

/// A ticket for a submission without options (see TaskDevice::submit()) that needs no check and no
/// wait; otherwise the ticket is empty, and the caller uses TicketGuard::submit(). The holder of a
/// ticket must publish its task at once: later tasks of the device wait for the publication.
class PlainTicket {
 public:
  PlainTicket() = default;  ///< empty
  explicit PlainTicket(const TaskDevice& device) noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return place_ != nullptr; }
  /// The task's event. Requires a ticket.
  [[nodiscard]] const Event& event() const noexcept { return event_; }
  /// The memory in which to build the callable, of up to task_bytes_max bytes.
  [[nodiscard]] void* place() const noexcept { return place_; }
  /// Called when the callable is built. On an inline device the task runs in this call.
  void publish(Label label, const TaskOps& ops) const noexcept;
  /// publish() for a task with a note.
  void publish(Label label, const TaskOps& ops, TaskNote& note) const noexcept;

 private:
  DeviceCore* core_ = nullptr;
  void* place_ = nullptr;
  Event event_;
};

}  // namespace heddle::sched
