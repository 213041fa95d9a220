// The consumer's side of a device: step(), the worker thread, draining of inline devices.
#include "scheduler/worker.hpp"

#include <fmt/format.h>
#include <time.h>

#include "heddle/observe.hpp"
#include "scheduler/task_context.hpp"

namespace heddle::sched {
namespace {

/// One writer at a time, so a plain add.
void count(std::atomic<std::uint64_t>& counter) noexcept {
  // relaxed: pairs with the relaxed loads in counters(); numbers for people, ordering nothing.
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// What a callable threw or returned, as a Status.
Status run_guarded(const TaskOps& ops, void* callable) noexcept {
  try {
    return ops.run(callable);
  } catch (const Error& e) {
    return e.status().with_exception(std::current_exception());
  } catch (const std::exception& e) {
    return Status(ErrorCode::device_failed, e.what()).with_exception(std::current_exception());
  } catch (...) {
    return Status(ErrorCode::device_failed, "threw something that is no std::exception")
        .with_exception(std::current_exception());
  }
}

}  // namespace

[[gnu::always_inline]] inline void DeviceCore::run(std::uint64_t ticket,
                                                   const TaskNote& note) noexcept {
  // relaxed: pairs with the load in snapshot(): for people, ordering nothing. It stays until the
  // next task; snapshot() knows when there is none.
  running_label_.store(note.label, std::memory_order_relaxed);
  auto& slot = lane_.at(ticket);
  Status result = run_guarded(*slot.ops, slot.callable);
  lane_.destroy(ticket);
  if (!result.ok()) [[unlikely]]
    return end_failed(ticket, note, std::move(result));
  if (note.after) [[unlikely]]
    return finish(ticket);
  timeline_->complete(ticket);
}

DeviceCore::Step DeviceCore::step(TaskContext& context) noexcept {
  const std::uint64_t ticket = timeline_->completed() + 1;
  if (!lane_.published(ticket)) return Step::idle;
  TaskNote& note = lane_.note(ticket);
  // Counts for the whole step: destructors and callbacks are user code on this thread too, and may
  // drop the last handle or wait.
  context.ticket = ticket;
  context.label = note.label;
  if (ticket % tuning::tasks_per_clock_read == 0) note_time();
  if (note.after || health_.careful()) [[unlikely]]
    return step_carefully(ticket, note);
  run(ticket, note);
  return Step::ran;
}

DeviceCore::Step DeviceCore::step_carefully(std::uint64_t ticket, TaskNote& note) noexcept {
  // relaxed: pairs with the load in snapshot(): nothing runs while this one is looked at.
  running_label_.store(nullptr, std::memory_order_relaxed);
  renew_stop_source();
  if (health_.cancelled(ticket)) {
    drop(ticket, End::cancelled,
         Status(ErrorCode::cancelled,
                fmt::format("device '{}': cancelled before it ran", timeline_->name())),
         note.contain);
    return Step::ran;
  }
  if (const Status reason = skip_reason(); !reason.ok()) {
    drop(ticket, End::skipped, reason, false);
    return Step::ran;
  }
  Status refusal;
  bool contained = false;
  if (note.after && !gate_open(ticket, note, refusal, contained)) return Step::idle;
  if (refusal.ok()) {
    run(ticket, note);
  } else {
    end_unrun(ticket, note, std::move(refusal), contained);
  }
  return Step::ran;
}

/// Why tasks are skipped now; ok when they are not.
Status DeviceCore::skip_reason() const noexcept {
  if (!health_.poisoned()) return {};
  const std::lock_guard lock(control_);
  return skip_reason_;
}

/// Ends a task whose gate refused it.
void DeviceCore::end_unrun(std::uint64_t ticket, const TaskNote& note, Status refusal,
                           bool contained) noexcept {
  if (refusal.code() == ErrorCode::cancelled) {
    drop(ticket, End::cancelled, refusal, note.contain);
  } else if (note.is_wait || !(contained || note.contain)) {
    lane_.destroy(ticket);
    end_badly(ticket, note, std::move(refusal), true);
  } else {
    drop(ticket, End::skipped, refusal, true);
  }
}

/// Waits for what the task comes after. false: not yet, and the device will look again. `refusal`:
/// why it must not run; `contained`: that failure was contained where it happened.
bool DeviceCore::gate_open(std::uint64_t ticket, TaskNote& note, Status& refusal,
                           bool& contained) noexcept {
  for (const Event& event : *note.after) {
    if (!event.done()) {
      if (runner_ && !(drain_until_ && Clock::now() >= *drain_until_)) {
        if (!arm(event)) return false;
      } else if (sleep_until_ended(event, drain_until_, true) != Waited::done) {
        refusal = Status(ErrorCode::cancelled,
                         fmt::format("device '{}': cancelled while it waited for {}",
                                     timeline_->name(), event.to_string()));
        return true;
      }
    }
    if (Status ended = event.status(); !ended.ok()) {
      contained = Timeline::of(event) != nullptr && Timeline::outcome_of(event).contained;
      refusal =
          Status(ErrorCode::device_failed,
                 fmt::format("device '{}' task '{}' (ticket {}) came after {}, which ended badly",
                             timeline_->name(), note.label, ticket, event.to_string()),
                 std::move(ended));
      return true;
    }
  }
  return true;
}

/// The task threw or returned `result`.
void DeviceCore::end_failed(std::uint64_t ticket, const TaskNote& note, Status result) noexcept {
  bool asked_to_stop = false;
  {
    const std::lock_guard lock(control_);
    asked_to_stop = stop_source_.stop_requested();
  }
  if (asked_to_stop && result.code() == ErrorCode::cancelled) {
    count(cancelled_);
    timeline_->note(ticket, ticket, End::cancelled, result, note.contain);
    finish(ticket);
    return;
  }
  std::exception_ptr exception = result.exception();
  Status failure(ErrorCode::device_failed,
                 fmt::format("device '{}' task '{}' (ticket {}) failed", timeline_->name(),
                             note.label, ticket),
                 std::move(result));
  end_badly(ticket, note, failure.with_exception(std::move(exception)), !note.contain);
}

/// The task failed (or what it came after did). Poison ends all later tasks of this epoch as
/// skipped.
void DeviceCore::end_badly(std::uint64_t ticket, const TaskNote& note, Status why,
                           bool poison) noexcept {
  count(failed_);
  timeline_->note(ticket, ticket, End::failed, why, !poison || note.contain);
  if (poison) {
    const std::lock_guard lock(control_);
    poison_ = why;
    skip_reason_ = Status(
        ErrorCode::device_failed,
        fmt::format("device '{}': skipped because of an earlier failure", timeline_->name()), why);
    poison_observed_ = false;
    timeline_->forget_observed();
    health_.poison();
  }
  finish(ticket);
}

/// Ends a task that does not run.
void DeviceCore::drop(std::uint64_t ticket, End end, const Status& why, bool contained) noexcept {
  lane_.destroy(ticket);
  count(end == End::skipped ? skipped_ : cancelled_);
  timeline_->note(ticket, ticket, end, why, contained);
  finish(ticket);
}

void DeviceCore::finish(std::uint64_t ticket) noexcept {
  if (lane_.note(ticket).after) {
    disarm();
    lane_.note(ticket).after.reset();
  }
  timeline_->complete(ticket);
}

/// A stop request is for the task that was running: the next one gets a fresh token.
void DeviceCore::renew_stop_source() noexcept {
  const std::uint64_t cancels = health_.cancels();
  const bool renew = cancels != cancels_seen_;
  std::stop_source fresh(std::nostopstate);
  try {
    if (renew) fresh = std::stop_source();
  } catch (...) {  // without memory the next tasks cannot be asked to stop
  }
  const std::lock_guard lock(control_);
  // Also when nobody has requested a stop yet: who cancels may hold the old source and be about to.
  if (renew) stop_source_.swap(fresh);
  cancels_seen_ = cancels;
  health_.settle(cancels, timeline_->completed());  // what was cancelled is looked at in this step
}

/// When tasks begin, roughly, for people: a clock that costs little, read now and then.
void DeviceCore::note_time() noexcept {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  // relaxed: pairs with the load in snapshot(); orders nothing.
  clock_ns_.store(now.tv_sec * std::int64_t{1'000'000'000} + now.tv_nsec,
                  std::memory_order_relaxed);
}

bool DeviceCore::take_turn(Fiber* fiber, std::uint32_t tasks_max) noexcept {
  std::shared_ptr<DeviceCore> kept;
  TaskContext context{this, id_, 0, "", fiber, nullptr};
  const TaskScope scope(context);
  note_time();
  std::uint64_t handled = 1;
  while (true) {
    while (step(context) == Step::ran) {
      if (--tasks_max == 0) return true;
    }
    if (kept_ && drained()) kept = std::move(kept_);
    // seq_cst: pairs with the requests in look(), and hands the consumer's state to the next turn.
    if (requests_.compare_exchange_strong(handled, 0, std::memory_order_seq_cst)) return false;
  }
}

void DeviceCore::work() noexcept {
  const auto stopping = [this] {
    // acquire: pairs with the release in stop_worker().
    return stop_.load(std::memory_order_acquire) && drained();
  };
  // A ticket that a stopped producer has not published yet is waited for asleep.
  const auto ready = [&] { return lane_.published(timeline_->completed() + 1) || stopping(); };
  TaskContext context{this, id_, 0, "", nullptr, nullptr};
  const TaskScope scope(context);
  while (true) {
    if (step(context) == Step::ran) continue;
    if (stopping()) return;
    const bool soon = spin_until(ready, spin());
    if (!soon) {
      doorbell_.park();
      if (ready()) {
        doorbell_.unpark();
      } else {
        count(parks_);
        parker_.park();
      }
    }
    note_time();
  }
}

void DeviceCore::wake_worker() noexcept {
  // relaxed: a number for people.
  wakes_.fetch_add(1, std::memory_order_relaxed);
  parker_.unpark();
}

}  // namespace heddle::sched
