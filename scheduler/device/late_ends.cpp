// Issuing, reporting, ending in ticket order; and Completion, by which tasks report.
#include "scheduler/device/late_ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/device/device_core.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {

LateEnds::LateEnds(const Identity& device, Lane<>& lane, Summons& summons, Control& control,
                   Ending& ending)
    : device_(device),
      lane_(lane),
      summons_(summons),
      control_(control),
      ending_(ending),
      in_flight_(device.options.in_flight),
      entries_(device.options.in_flight),
      trace_(device) {}

std::uint64_t LateEnds::begins_after(std::uint64_t ticket) const noexcept {
  // What ends as it returns begins when all before it has ended.
  return lane_.look(ticket).ops().finish == nullptr ? ticket - 1 : in_flight_.room_after(ticket);
}

void LateEnds::begin(std::uint64_t ticket) noexcept {
  Entry& mine = entry(ticket);
  mine.awaited = false;
  mine.reported = {};
  mine.stamp = trace::stamp_if_on();
  // relaxed, all: a picture for people; pair with the loads in show().
  mine.ticket.store(ticket, std::memory_order_relaxed);
  mine.label.store(lane_.at(ticket).label, std::memory_order_relaxed);
  mine.since_ns.store(now().time_since_epoch().count(), std::memory_order_relaxed);
  begun_.store(ticket, std::memory_order_relaxed);  // relaxed: as above
  in_flight_.begin(ticket);
}

void LateEnds::issued(std::uint64_t ticket, Status failure) noexcept {
  end_at_once(ticket, How::issued, std::move(failure), false);
}

/// Unless somebody will report it.
void LateEnds::end_at_once(std::uint64_t ticket, How how, Status why, bool contained) noexcept {
  Entry& mine = entry(ticket);
  const bool awaited = mine.awaited;
  mine.how = how;
  mine.why = std::move(why);
  mine.contained = contained;
  device_.timeline->note_issued(ticket);
  if (!awaited) in_flight_.reported(ticket, [](std::uint64_t) {});  // not the second to come
  in_flight_.issued(ticket, [this](std::uint64_t due) { end(due); });
  tell_consumer();
}

void LateEnds::reported(std::uint64_t ticket, Status status) noexcept {
  entry(ticket).reported = std::move(status);
  simulated_point();
  in_flight_.reported(ticket, [this](std::uint64_t due) { end(due); });
  tell_consumer();
}

/// The completer: the ticket was issued and reported, and all before it have ended.
void LateEnds::end(std::uint64_t ticket) noexcept {
  Entry& mine = entry(ticket);
  const char* const label = lane_.at(ticket).label;
  TaskContext context;
  context.device = &device_.core;
  context.timeline = device_.id;
  context.ticket = ticket;
  context.ending = label;
  const TaskScope scope(context);
  running_.run(label);
  trace_.begin_at(mine.stamp);
  const TaskNote none;
  const TaskNote& note = lane_.look(ticket).noted() ? lane_.note(ticket) : none;
  const Status why = std::move(mine.why);
  const bool contained = mine.contained;
  switch (mine.how) {
    case How::ran:
      return ending_.done(ticket);
    case How::skipped:
      return ending_.drop(ticket, End::skipped, why, contained);
    case How::cancelled:
      return ending_.drop(ticket, End::cancelled, why, contained);
    case How::refused:
    case How::issued:
      break;
  }
  // An earlier one may have failed since.
  if (const Status reason = control_.skip_reason(); !reason.ok()) {
    return ending_.drop(ticket, End::skipped, reason, false);
  }
  if (mine.how == How::refused) return ending_.refused(ticket, note, why, contained);
  Status status = std::move(mine.reported);
  void* const callable = lane_.at(ticket).callable;
  const TaskOps& ops = lane_.look(ticket).ops();
  if (!why.ok()) {
    status = why;
  } else {
    status = ops.finish(callable, std::move(status));
  }
  if (!status.ok()) return ending_.failed(ticket, note, std::move(status));
  ops.destroy(callable);
  ending_.done(ticket);
}

/// Nobody else does, where the end of the last task is all that it waits for.
void LateEnds::tell_consumer() noexcept {
  if (!lane_.closed() || lane_.tickets() != device_.timeline->completed()) return;
  if (device_.runner) {
    summons_.look();
  } else {
    summons_.rouse();
  }
}

void LateEnds::show(Snapshot& snapshot) const {
  const std::uint64_t begun = this->begun();
  const std::uint64_t first = snapshot.running_ticket;
  if (begun < first) return;
  snapshot.in_flight = begun - first + 1;
  const Entry& oldest = entries_[first % entries_.size()];
  // relaxed, all: pair with the stores in begin(). Looked at again: it may have ended, and its
  // entry be another's.
  const char* const label = oldest.label.load(std::memory_order_relaxed);
  const std::chrono::nanoseconds since(oldest.since_ns.load(std::memory_order_relaxed));
  if (label == nullptr || oldest.ticket.load(std::memory_order_relaxed) != first) return;
  snapshot.running = label;
  snapshot.running_for = now().time_since_epoch() - since;
}

Completion Completion::of_running_task() noexcept {
  const TaskContext& task = *current_task();
  task.device->late_ends()->expect_report(task.ticket);
  return {task.device->shared_from_this(), task.ticket};
}

Completion& Completion::operator=(Completion&& other) noexcept {
  Completion before(std::move(*this));
  core_ = std::move(other.core_);
  ticket_ = other.ticket_;
  return *this;
}

Completion::~Completion() {
  if (core_ == nullptr) return;
  end(Status(ErrorCode::device_failed,
             "its Completion was dropped before it said how the task ended"));
}

Status Completion::end(Status status) noexcept {
  const std::shared_ptr<DeviceCore> core = std::move(core_);  // as long as this takes
  if (core == nullptr) {
    return Status(ErrorCode::failed_precondition,
                  "this Completion has ended its task already, or was moved from");
  }
  // What waits for it here is the parent's too, and would run in both.
  if (core->timeline().in_forked_child()) return core->timeline().fork_refusal();
  core->late_ends()->reported(ticket_, std::move(status));
  return {};
}

}  // namespace heddle::sched
