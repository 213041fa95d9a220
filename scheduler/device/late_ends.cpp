// Issuing, reporting, ending in ticket order; and Completion, which reports the end of a task.
#include "scheduler/device/late_ends.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "scheduler/device/clocks.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/whole.hpp"
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
  // A task without finish() ends as it returns: its begin waits for the ends of earlier tickets.
  return lane_.look(ticket).ops().finish == nullptr ? ticket - 1 : in_flight_.room_after(ticket);
}

void LateEnds::begin(std::uint64_t ticket, AwaitedList handed) noexcept {
  Entry& mine = entry(ticket);
  mine.handed = std::move(handed);
  mine.awaited = false;
  mine.reported = {};
  mine.stamp = trace::stamp_if_on();
  // relaxed, all: values for snapshots; pairs with the loads in show().
  mine.ticket.store(ticket, std::memory_order_relaxed);
  mine.label.store(lane_.at(ticket).label, std::memory_order_relaxed);
  mine.since_ns.store(now().time_since_epoch().count(), std::memory_order_relaxed);
  begun_.store(ticket, std::memory_order_relaxed);  // relaxed: pairs with the load in begun()
  in_flight_.begin(ticket);
}

void LateEnds::have_hardware(std::shared_ptr<HardwareQueue> queue) {
  hand_over_ = std::make_shared<HandOver>(device_.name(), std::move(queue));
  device_.timeline->set_hand_over(hand_over_);
}

Event LateEnds::gate_of(const Event& event) const noexcept {
  if (!hand_over_ || Timeline::has_ended(event)) return event;
  const auto other = Timeline::of(event)->hand_over(event);
  return other && hand_over_->reaches(*other) ? other->issue_of(event.ticket()) : event;
}

bool LateEnds::hand_over(const Event& event) noexcept {
  if (!hand_over_) return false;
  const auto other = Timeline::of(event)->hand_over(event);
  if (!other || !hand_over_->reaches(*other) ||
      !Timeline::has_ended(other->issue_of(event.ticket())) ||
      !hand_over_->queue->come_after(*other->queue, event.ticket()).ok()) {
    return false;
  }
  try {
    before_allocation();
    Timeline::call(event, [this, kept = Whole::keep(device_.core)] { look_again(); });
  } catch (...) {  // no memory for the callback: the gate waits for the end
    return false;
  }
  return true;
}

void LateEnds::issued(std::uint64_t ticket, Status failure) noexcept {
  Entry& mine = entry(ticket);
  if (!mine.handed.empty() &&
      !mine.awaited) {  // only waits were issued: the ticket ends when the hardware has passed them
    mine.awaited = true;
    hand_over_->queue->end({Whole::keep(device_.core), ticket});
  }
  end_at_once(ticket, How::issued, std::move(failure));
}

/// Ends the ticket now, unless a thread will report its end.
void LateEnds::end_at_once(std::uint64_t ticket, How how, Status why) noexcept {
  Entry& mine = entry(ticket);
  const bool awaited = mine.awaited;
  mine.how = how;
  mine.why = std::move(why);
  device_.timeline->note_issued(ticket);
  if (hand_over_) hand_over_->issued(ticket);
  if (!awaited)
    // issued() below is the second of the two calls, and ends the ticket
    in_flight_.reported(ticket, [](std::uint64_t) { return false; });
  in_flight_.issued(ticket, [this](std::uint64_t due) { return end(due); });
  tell_consumer();
}

void LateEnds::reported(std::uint64_t ticket, Status status) noexcept {
  entry(ticket).reported = std::move(status);
  simulated_point();
  in_flight_.reported(ticket, [this](std::uint64_t due) { return end(due); });
  tell_consumer();
}

/// Called by the completer: the ticket was issued and reported, and all earlier tickets have ended.
/// false: an event that the hardware waits for must end first; look_again() follows.
bool LateEnds::end(std::uint64_t ticket) noexcept {
  Entry& mine = entry(ticket);
  if (!std::ranges::all_of(mine.handed,
                           [](const Awaited& each) { return Timeline::has_ended(each.event); }))
    return false;
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
  Status why = std::move(mine.why);
  const auto handed = std::move(mine.handed);
  if (mine.how == How::ran) {
    ending_.done(ticket);
    return true;
  }
  if (mine.how == How::skipped || mine.how == How::cancelled) {
    ending_.drop(ticket, mine.how == How::skipped ? End::skipped : End::cancelled, why);
    return true;
  }
  // An earlier task may have failed since.
  if (const Status reason = control_.skip_reason(); !reason.ok()) {
    ending_.drop(ticket, End::skipped, reason);
    return true;
  }
  bool refused = mine.how == How::refused;
  if (!handed.empty()) {
    // Checked as at a gate, regardless of the task's own report: the task may have read bad values.
    Status bad = ending_.refusal_by(handed, ticket, note);
    refused = !bad.ok();
    if (refused) why = std::move(bad);
  }
  if (refused) {
    ending_.refused(ticket, note, why);
  } else if (Status status = why.ok() ? how_it_went(ticket, mine) : std::move(why); status.ok()) {
    ending_.done(ticket);
  } else {
    ending_.failed(ticket, note, std::move(status));
  }
  return true;
}

/// How an issued task ended; destroys the callable of a task that ended well.
Status LateEnds::how_it_went(std::uint64_t ticket, Entry& entry) noexcept {
  void* const callable = lane_.at(ticket).callable;
  const TaskOps& ops = lane_.look(ticket).ops();
  Status status = ops.finish(callable, std::move(entry.reported));
  if (status.ok()) ops.destroy(callable);
  return status;
}

/// An event that delayed a ticket's end may have ended.
void LateEnds::look_again() noexcept {
  in_flight_.drain([this](std::uint64_t due) { return end(due); });
  tell_consumer();
}

/// Needed when the consumer waits only for the end of the last task: no other call wakes the
/// consumer then.
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
  // relaxed, all: pairs with the stores in begin(). The ticket is checked last: the ticket may have
  // ended, and another ticket may use the entry.
  const char* const label = oldest.label.load(std::memory_order_relaxed);
  const std::chrono::nanoseconds since(oldest.since_ns.load(std::memory_order_relaxed));
  if (label == nullptr || oldest.ticket.load(std::memory_order_relaxed) != first) return;
  snapshot.running = label;
  snapshot.running_for = now().time_since_epoch() - since;
}

}  // namespace heddle::sched
