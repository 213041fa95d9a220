// Submission and room in the queue.
#include "scheduler/device/admission.hpp"

#include <fmt/format.h>

#include "heddle/observe.hpp"
#include "scheduler/device/clocks.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/waiting.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/never_destroyed.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {

namespace {

/// The number of the submitting producer: a thread, or a host of a simulation (hosts share a
/// thread).
[[gnu::noinline]] std::uint64_t producer_number() noexcept {
  Hooks* const simulation = hooks();
  return simulation != nullptr ? simulation->producer() : thread_number();
}

}  // namespace

Event Admission::submit_otherwise(Label label, const TaskOps& ops, void* from) noexcept {
  if (control_.health().plain() > trace::submits_on() && !device_.options.single_producer &&
      fork_generation() == device_.fork_generation) {
    if (const std::uint64_t ticket = reserve(thread_number()))
      return publish(ticket, label, ops, from);
  }
  static NeverDestroyed<const SubmitOptions> defaults;
  TaskNote note;
  return submit_carefully(label, note, ops, from, *defaults);
}

/// Takes a ticket if `guard` agrees and there is room. The code between enter() and leave() is
/// short: the guard may hold locks, and a simulation must not leave this fiber meanwhile.
std::uint64_t Admission::reserve_guarded(TaskNote& note, std::size_t asked, bool full,
                                         const SubmitOptions& options, TicketGuard& guard,
                                         Status& why) noexcept {
  note.after.shrink(asked);  // drops predecessors added by an earlier try
  why = guard.enter(note);
  if (!why.ok()) return 0;
  const std::uint64_t ticket = full ? 0 : reserve(producer_number());
  if (ticket == 0) {
    guard.leave(nullptr);
  } else {
    const Event taken = device_.timeline->event(ticket);
    if (Clocks::on()) [[unlikely]]
      Clocks::submitted(taken, options.after, guard.runs_host_code());
    guard.leave(&taken);
  }
  return ticket;
}

/// Notes the predecessors of the task, except those that have ended well.
Status Admission::gather_after(TaskNote& note, const SubmitOptions& options) noexcept {
  for (const Event& event : options.after) {
    const bool ended = Timeline::has_ended(event);
    if (ended && Timeline::outcome_of(event).ok()) continue;
    if (!ended && Timeline::of(event)->in_forked_child())
      return Timeline::of(event)->fork_refusal();
    if (waits_for_itself(device_.id, event.ticket()) && event.device_id() == device_.id &&
        event.ticket() > lane_.tickets()) {
      return device_.own_task_refusal("waiting for a later ticket");
    }
    try {
      before_allocation();
      note.come_after(event);
    } catch (...) {
      return Status(ErrorCode::exhausted, "no memory for the events that a task comes after");
    }
  }
  return {};
}

Event Admission::submit_carefully(Label label, TaskNote& note, const TaskOps& ops, void* from,
                                  const SubmitOptions& options, TicketGuard* guard) noexcept {
  const auto refuse = [&](Status why) {
    log_made(LogLevel::debug,
             [&] { return fmt::format("task '{}' refused: {}", label.c_str(), why.to_string()); });
    return device_.timeline->refuse(std::move(why));
  };
  if (options.full.value_or(FullPolicy::block) > FullPolicy::deadline) {
    return refuse(Status(ErrorCode::invalid_argument, [&] {
      return fmt::format("task '{}': no policy {} for a full queue (see FullPolicy)", label.c_str(),
                         static_cast<int>(*options.full));
    }));
  }
  if (ops.finish != nullptr && device_.options.in_flight == 0 && !note.is_wait) {
    return refuse(Status(ErrorCode::failed_precondition, [&] {
      return fmt::format(
          "task '{}' takes a Completion, to end later, and device '{}' ends tasks as they return: "
          "open it with DeviceOptions::in_flight, which says how many such tasks it may have",
          label.c_str(), device_.name());
    }));
  }
  note.contain = options.contain;
  note.own_status = options.contain && options.own_status;
  if (device_.options.record_sites) note.site = options.site.value_or(label.site());
  if (Status why = gather_after(note, options); !why.ok()) return refuse(std::move(why));
  const std::size_t asked = note.after.size();
  while (true) {
    if (Status status = check(); !status.ok()) return refuse(std::move(status));
    Hooks* const simulation = device_.simulated ? hooks() : nullptr;
    const bool full = simulation != nullptr && simulation->queue_full();
    std::uint64_t ticket = 0;
    if (guard != nullptr) {
      Status why;
      ticket = reserve_guarded(note, asked, full, options, *guard, why);
      if (!why.ok()) return refuse(std::move(why));
    } else if (!full) {
      ticket = reserve(producer_number());
      if (ticket != 0 && Clocks::on()) Clocks::submitted(event(ticket), options.after, true);
    }
    if (ticket != 0) return publish(ticket, label, note, ops, from);
    if (Status status = make_room(options); !status.ok()) return refuse(std::move(status));
  }
}

Event Admission::publish(std::uint64_t ticket, Label label, const TaskOps& ops,
                         void* from) noexcept {
  Event taken(place_, ticket);  // first: an inline task may drop the device's last handle
  lane_.publish(ticket, label.c_str(), ops, from);
  summons_.call();
  return taken;
}

Event Admission::publish(std::uint64_t ticket, Label label, TaskNote& note, const TaskOps& ops,
                         void* from) noexcept {
  Event taken(place_, ticket);  // first: an inline task may drop the device's last handle
  Hooks* const simulation = device_.simulated ? hooks() : nullptr;
  if (simulation != nullptr) simulation->point_in_submit();
  if ((trace::submits_on() & trace::submits_traced) != 0)
    trace::record_point(trace::Kind::submit, device_.id, ticket);
  if (note.contain || note.is_wait || !note.after.empty() || device_.options.record_sites) {
    lane_.publish(ticket, label.c_str(), ops, from, note);
  } else {
    lane_.publish(ticket, label.c_str(), ops, from);
  }
  if (simulation != nullptr) simulation->point();
  summons_.call();
  return taken;
}

/// The queue is full: follows the policy. ok: try again.
Status Admission::make_room(const SubmitOptions& options) noexcept {
  if (lane_.closed()) return {};  // not full: the next try reports the closed lane
  const FullPolicy policy = options.full.value_or(device_.options.full);
  const auto full = [&](const char* more) {
    return Status(ErrorCode::exhausted, [&] {
      return fmt::format("device '{}': its queue of {} tasks is full{}", device_.name(),
                         lane_.capacity(), more);
    });
  };
  if (policy == FullPolicy::fail) return full("");
  if (device_.inside_own_task())
    return full(", and the submitting task must end before a slot frees");
  const std::uint64_t tickets = lane_.tickets();
  Runner::Deadline deadline;
  if (policy == FullPolicy::deadline) deadline = options.deadline;
  return wait_for_slot(tickets, deadline);
}

/// A worker slower than its producers keeps the queue full. A producer that looked for each slot
/// would take the line of the worker's progress as often, and slow the worker down: it looks again
/// only after many tasks have ended, as long as tasks end quickly. `ended`: the ticket whose slot
/// is free.
void Admission::await_more_room(std::uint64_t ended) const noexcept {
  const std::uint64_t block = std::min(lane_.capacity() / tuning::blocks_min, tuning::block_max);
  if (device_.runner != nullptr || block < tuning::block_ends_min) return;
  const std::uint64_t until = ended + block;
  while (ended < until) {
    for (std::uint64_t k = 0; k < tuning::block_pauses; ++k) cpu_relax();
    const std::uint64_t now = device_.timeline->completed();
    if (now < ended + tuning::block_ends_min) return;
    ended = now;
  }
}

Status Admission::wait_for_slot(std::uint64_t tickets, Runner::Deadline deadline) noexcept {
  if (tickets < lane_.capacity()) return {};
  const Event slot = device_.timeline->event(tickets - lane_.capacity() + 1);
  switch (wait_here(slot, deadline, device_.spin())) {
    case Waited::done:
      await_more_room(slot.ticket());
      return {};
    case Waited::stopped:
      return status_of(Waited::stopped, slot);
    case Waited::refused: {
      Status why = status_of(Waited::refused, slot);
      if (why.code() == ErrorCode::exhausted) return why;  // no memory to wait
      return Status(
          ErrorCode::exhausted,
          [&] {
            return fmt::format("device '{}': its queue of {} tasks is full, and {}", device_.name(),
                               lane_.capacity(),
                               in_part() ? "a part of a task waits for no room"
                               : TellsEnds::in_callback()
                                   ? "a callback on the thread that tells the ends of a completion "
                                     "domain waits for no room"
                                   : "its running task waits, in a cycle, for the task that "
                                     "submits");
          },
          std::move(why));
    }
    case Waited::late:
      break;
  }
  return Status(ErrorCode::deadline, [&] {
    return fmt::format("device '{}': its queue of {} tasks stayed full until the deadline",
                       device_.name(), lane_.capacity());
  });
}

/// Why this thread may not submit now; ok when it may.
Status Admission::check() noexcept {
  if (Status status = device_.forked(); !status.ok()) return status;
  // Counts as seen once a caller asks for the status of the refused event.
  if (Status failure = control_.failure(); !failure.ok()) return failure;
  if (lane_.closed()) {
    return Status(ErrorCode::unavailable, [&] {
      return fmt::format("device '{}' is shut down and takes no new tasks; open another",
                         device_.name());
    });
  }
  return device_.options.single_producer ? check_producer() : Status();
}

Status Admission::check_producer() noexcept {
  const std::uint64_t me = producer_number();
  std::uint64_t first = no_thread_number;
  // relaxed, twice: the numbers carry no data; pairs with the same operation of other producers,
  // whose numbers only have to differ.
  if (producer_.compare_exchange_strong(first, me, std::memory_order_relaxed,
                                        std::memory_order_relaxed) ||
      first == me) {
    return {};
  }
  return Status(ErrorCode::failed_precondition, [&] {
    return fmt::format(
        "device '{}' was opened with single_producer, and another thread "
        "submits to it already; submit "
        "from that thread, or open it without",
        device_.name());
  });
}

Event Admission::submit_wait(const Event& event) noexcept {
  const bool own = event.device_id() == device_.id;
  if (own && event.ticket() > lane_.tickets())
    return device_.timeline->refuse(device_.own_task_refusal("waiting for a later ticket"));
  if (own || (Timeline::has_ended(event) && Timeline::outcome_of(event).ok())) {
    if (!own && Clocks::on()) Clocks::next_comes_after(device_.id, event);
    return event;
  }
  SubmitOptions options;
  try {
    options.after.push_back(event);
  } catch (...) {
    return device_.timeline->refuse(Status(ErrorCode::exhausted, "no memory to wait for an event"));
  }
  return submit_nothing("wait", options);
}

Event Admission::record() noexcept {
  // Events that ended before the device waited for them have no task here. An empty task carries
  // them, and later waits for this event come after them too.
  if (Clocks::on() && Clocks::is_owed(device_.id)) {
    const Event carrier = submit_nothing("record", {.full = FullPolicy::fail});
    if (carrier.accepted()) return carrier;  // else the event is the same as without the carrier
  }
  const std::uint64_t last = lane_.tickets();
  return last == 0 ? Event() : device_.timeline->event(last);
}

Event Admission::submit_nothing(Label label, const SubmitOptions& options) noexcept {
  // Has a finish(): on a device with tasks in flight, the empty task begins before earlier tasks
  // have ended.
  static constexpr TaskOps nothing{
      [](void* /*to*/, void* /*from*/) noexcept {},
      [](void* /*callable*/, Status& /*failure*/) { return true; },
      [](void* /*callable*/) noexcept {},
      [](void* /*callable*/, Status reported) noexcept { return reported; }};
  TaskNote note;
  note.is_wait = true;
  return submit_carefully(label, note, nothing, nullptr, options);
}

}  // namespace heddle::sched
