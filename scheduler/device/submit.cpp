// The producers' side of a device: submitting, and making room.
#include <fmt/format.h>

#include "heddle/observe.hpp"
#include "scheduler/device/admission.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/worker.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/never_destroyed.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::sched {

namespace {

/// Who submits: a thread, or a host of a simulation, which share one.
[[gnu::noinline]] std::uint64_t producer_number() noexcept {
  Hooks* const simulation = hooks();
  return simulation != nullptr ? simulation->producer() : thread_number();
}

}  // namespace

Event Device::submit_task(Label label, const TaskOps& task, void* from) const noexcept {
  if (core_ == nullptr) [[unlikely]]
    return refuse_empty();
  return core_->submit(label, task, from);
}

Event Device::submit_task(Label label, const TaskOps& task, void* from,
                          const SubmitOptions& options) const noexcept {
  if (core_ == nullptr) return refuse_empty();
  TaskNote note;
  return core_->submit_carefully(label, note, task, from, options);
}

[[gnu::always_inline]] inline Event DeviceCore::submit(Label label, const TaskOps& ops,
                                                       void* from) noexcept {
  // One comparison for both: plain, and submits are not traced. In a forked child nobody has the
  // owner's number.
  if (health_.plain() > trace::submits_on()) [[likely]] {
    if (const std::uint64_t ticket = lane_.reserve_alone(known_thread_number())) [[likely]]
      return publish(ticket, label, ops, from);
  }
  return submit_otherwise(label, ops, from);
}

/// The event is made before the callable, so that fewer values outlive a call.
[[gnu::always_inline]] inline Event DeviceCore::publish(std::uint64_t ticket, Label label,
                                                        const TaskOps& ops, void* from) noexcept {
  Event event(place_, ticket);
  lane_.publish(ticket, label.c_str(), ops, from);
  set_going();
  return event;
}

/// One of several producers, or the one that has to look how much room there is.
[[gnu::noinline]] Event DeviceCore::submit_otherwise(Label label, const TaskOps& ops,
                                                     void* from) noexcept {
  if (health_.plain() > trace::submits_on() && !options_.single_producer &&
      fork_generation() == fork_generation_) {
    if (const std::uint64_t ticket = reserve(thread_number()))
      return publish(ticket, label, ops, from);
  }
  static NeverDestroyed<const SubmitOptions> defaults;
  TaskNote note;
  return submit_carefully(label, note, ops, from, *defaults);
}

Event Admission::submit(const Device& device, Label label, const TaskOps& ops, void* from,
                        const SubmitOptions& options, Admission& admission) noexcept {
  TaskNote note;
  return DeviceCore::in(device).submit_carefully(label, note, ops, from, options, &admission);
}

/// Takes a ticket if `admission` lets it and there is room. What comes between is short: it may
/// hold locks of its own, and a simulation must not leave this fiber meanwhile.
std::uint64_t DeviceCore::reserve_admitted(TaskNote& note, std::size_t asked, bool full,
                                           Admission& admission, Status& why) noexcept {
  if (note.after) note.after->resize(asked);  // without those of an earlier try
  why = admission.enter(note);
  if (!why.ok()) return 0;
  const std::uint64_t ticket = full ? 0 : reserve(producer_number());
  if (ticket == 0) {
    admission.leave(nullptr);
  } else {
    const Event taken = timeline_->event(ticket);
    admission.leave(&taken);
  }
  return ticket;
}

Event DeviceCore::submit_carefully(Label label, TaskNote& note, const TaskOps& ops, void* from,
                                   const SubmitOptions& options, Admission* admission) noexcept {
  const auto refuse = [&](Status why) {
    log_made(LogLevel::debug,
             [&] { return fmt::format("task '{}' refused: {}", label.c_str(), why.to_string()); });
    return timeline_->refuse(std::move(why));
  };
  if (options.full.value_or(FullPolicy::block) > FullPolicy::deadline) {
    return refuse(Status(ErrorCode::invalid_argument, [&] {
      return fmt::format("task '{}': no policy {} for a full queue (see FullPolicy)", label.c_str(),
                         static_cast<int>(*options.full));
    }));
  }
  note.contain = options.contain;
  note.own_status = options.contain && options.own_status;
  if (options_.record_sites) note.site = options.site.value_or(label.site());
  for (const Event& event : options.after) {
    if (event.done() && Timeline::outcome_of(event).status.ok()) continue;
    if (!event.done() && Timeline::of(event)->in_forked_child())
      return refuse(Timeline::of(event)->fork_refusal());
    if (waits_for_itself(id_, event.ticket()) && event.timeline() == id_ &&
        event.ticket() > lane_.tickets()) {
      return refuse(own_task_refusal("waiting for a later ticket"));
    }
    try {
      before_allocation();
      note.come_after(event);
    } catch (...) {
      return refuse(
          Status(ErrorCode::exhausted, "no memory for the events that a task comes after"));
    }
  }
  const std::size_t asked = note.after ? note.after->size() : 0;
  while (true) {
    if (Status status = refusal(); !status.ok()) return refuse(std::move(status));
    if (options_.single_producer) {
      if (Status status = check_producer(); !status.ok()) return refuse(std::move(status));
    }
    Hooks* const simulation = simulated_ ? hooks() : nullptr;
    const bool full = simulation != nullptr && simulation->queue_full();
    std::uint64_t ticket = 0;
    if (admission != nullptr) {
      Status why;
      ticket = reserve_admitted(note, asked, full, *admission, why);
      if (!why.ok()) return refuse(std::move(why));
    } else if (!full) {
      ticket = reserve(producer_number());
    }
    if (ticket != 0) {
      Event taken(place_, ticket);  // first: an inline task may drop the device's last handle
      if (simulation != nullptr) simulation->point_in_submit();
      if (trace::submits_on()) trace::record_submit(id_, ticket);
      if (note.contain || note.is_wait || note.after || options_.record_sites) {
        lane_.publish(ticket, label.c_str(), ops, from, note);
      } else {
        lane_.publish(ticket, label.c_str(), ops, from);
      }
      if (simulation != nullptr) simulation->point();
      set_going();
      return taken;
    }
    if (Status status = make_room(options); !status.ok()) return refuse(std::move(status));
  }
}

/// The queue is full: does what the policy says. ok: try again.
Status DeviceCore::make_room(const SubmitOptions& options) noexcept {
  if (lane_.closed()) return {};  // not full: the next try says so
  const FullPolicy policy = options.full.value_or(options_.full);
  const auto full = [&](const char* more) {
    return Status(ErrorCode::exhausted, [&] {
      return fmt::format("device '{}': its queue of {} tasks is full{}", timeline_->name(),
                         lane_.capacity(), more);
    });
  };
  if (policy == FullPolicy::fail) return full("");
  if (inside_own_task()) return full(", and the submitting task must end before a slot frees");
  const std::uint64_t tickets = lane_.tickets();
  Deadline deadline;
  if (policy == FullPolicy::deadline) deadline = options.deadline;
  return wait_for_slot(tickets, deadline);
}

Status DeviceCore::wait_for_slot(std::uint64_t tickets, Deadline deadline) noexcept {
  if (tickets < lane_.capacity()) return {};
  const Event slot = timeline_->event(tickets - lane_.capacity() + 1);
  switch (wait_here(slot, deadline, spin())) {
    case Waited::done:
      return {};
    case Waited::stopped:
      return status_of(Waited::stopped, slot);
    case Waited::refused: {
      Status why = status_of(Waited::refused, slot);
      if (why.code() == ErrorCode::exhausted) return why;  // no memory to wait
      return Status(
          ErrorCode::exhausted,
          [&] {
            return fmt::format(
                "device '{}': its queue of {} tasks is full, and its running task "
                "waits, in a cycle, for the task that submits",
                timeline_->name(), lane_.capacity());
          },
          std::move(why));
    }
    case Waited::late:
      break;
  }
  return Status(ErrorCode::deadline, [&] {
    return fmt::format("device '{}': its queue of {} tasks stayed full until the deadline",
                       timeline_->name(), lane_.capacity());
  });
}

/// Why nothing may be submitted now; ok when it may.
Status DeviceCore::refusal() const noexcept {
  if (Status status = forked(); !status.ok()) return status;
  if (health_.poisoned()) {
    const std::lock_guard lock(control_);
    if (!poison_.ok()) return poison_;  // seen by who asks the event that is refused
  }
  if (lane_.closed()) {
    return Status(ErrorCode::unavailable, [&] {
      return fmt::format("device '{}' is shut down and takes no new tasks; open another",
                         timeline_->name());
    });
  }
  return {};
}

Status DeviceCore::check_producer() noexcept {
  const std::uint64_t me = producer_number();
  std::uint64_t first = no_thread_number;
  // relaxed, both: carry nothing; numbers only have to differ.
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
        timeline_->name());
  });
}

Event DeviceCore::wait(const Event& event) noexcept {
  const bool own = event.timeline() == id_;
  if (own && event.ticket() > lane_.tickets())
    return timeline_->refuse(own_task_refusal("waiting for a later ticket"));
  if (own || (event.done() && Timeline::outcome_of(event).status.ok())) return event;
  static constexpr TaskOps nothing{[](void* /*to*/, void* /*from*/) noexcept {},
                                   [](void* /*callable*/, Status& /*failure*/) { return true; },
                                   [](void* /*callable*/) noexcept {}};
  SubmitOptions options;
  try {
    options.after.push_back(event);
  } catch (...) {
    return timeline_->refuse(Status(ErrorCode::exhausted, "no memory to wait for an event"));
  }
  TaskNote note;
  note.is_wait = true;
  return submit_carefully("wait", note, nothing, nullptr, options);
}

void DeviceCore::set_going_closely() noexcept {
  if (runner_) {
    look();
  } else if (doorbell_.ring()) {
    wake_worker();
  }
}

}  // namespace heddle::sched
