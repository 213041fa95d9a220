// Tickets for floors above, which build on the scheduler. TicketGuard: what else has to hold at the
// moment at which a task takes its ticket; it is asked before the ticket is taken, so that a
// refusal costs none. PlainTicket: a submission in two short parts, for callers that have something
// to note between them.
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

  /// Before a ticket is taken: may lock, for leave() follows without a wait between. Notes what
  /// else the task has to come after. A failed status refuses the task, and nothing follows.
  [[nodiscard]] virtual Status enter(TaskNote& note) noexcept = 0;
  /// The task took that ticket and will be published; or (null) the queue is full, and enter() is
  /// asked again when it may not be. Unlocks.
  virtual void leave(const Event* taken) noexcept = 0;
  /// Whether the task runs code of users, which may wait in it.
  [[nodiscard]] virtual bool runs_host_code() const noexcept = 0;

  /// Submits a task that `from` constructs, as TaskDevice::submit() does.
  static Event submit(const TaskDevice& device, Label label, const TaskOps& ops, void* from,
                      const SubmitOptions& options, TicketGuard& guard) noexcept;

  /// Ends the task that runs on this thread, later: its operations have a finish().
  [[nodiscard]] static Completion completion_of_running_task() noexcept {
    return Completion::of_running_task();
  }

 protected:
  ~TicketGuard() = default;
};

/// What a submitter has to know who takes for granted that an earlier task of the device ended
/// well, or else its own will not run: see Disturbances. Before a ticket is taken.
[[nodiscard]] std::uint64_t disturbances(const TaskDevice& device) noexcept;
/// After it was taken: whether it cannot be taken for granted after all.
[[nodiscard]] bool disturbed_since(const TaskDevice& device, std::uint64_t before) noexcept;
/// Of a task whose earlier self knew `one`, and one that knows `other`: it can.
[[nodiscard]] constexpr bool undisturbed(std::uint64_t one, std::uint64_t other) noexcept {
  return one == other && Disturbances<>::is_quiet(one);
}

/// A ticket taken as TaskDevice::submit() takes it without options, where nothing is to be looked
/// at or waited for: else there is none, and TicketGuard::submit() will tell. Whoever has one
/// publishes its task at once: all later tasks of the device wait for it.
class PlainTicket {
 public:
  PlainTicket() = default;  ///< none
  explicit PlainTicket(const TaskDevice& device) noexcept;
  [[nodiscard]] explicit operator bool() const noexcept { return place_ != nullptr; }
  /// The task's event. For a caller that has a ticket.
  [[nodiscard]] const Event& event() const noexcept { return event_; }
  /// Where its callable is to be built, of up to task_bytes_max bytes.
  [[nodiscard]] void* place() const noexcept { return place_; }
  /// The callable is there. On a device whose mode is inline it runs here.
  void publish(Label label, const TaskOps& ops) const noexcept;
  /// The same for a task that has a note after all.
  void publish(Label label, const TaskOps& ops, TaskNote& note) const noexcept;

 private:
  DeviceCore* core_ = nullptr;
  void* place_ = nullptr;
  Event event_;
};

}  // namespace heddle::sched
