// The consumer's side of a device: step(), the worker thread, draining of inline devices.
//
// Wake protocol (Dekker; all four accesses seq_cst, so one of the two sees the other):
//   producer: publish the slot flag      worker: parked_ = true
//             read parked_                       re-read the slot flag (and stop_)
//             if set: take it, unpark            neither: sleep
#include "scheduler/worker.hpp"

#include <fmt/format.h>

#include "heddle/observe.hpp"
#include "scheduler/task_context.hpp"

namespace heddle::sched {
namespace {

std::int64_t now_ns() noexcept {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             Event::Clock::now().time_since_epoch())
      .count();
}

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

DeviceCore::Step DeviceCore::step() noexcept {
  const std::uint64_t ticket = timeline_->completed() + 1;
  if (!lane_.published(ticket)) return Step::idle;
  TaskNote& note = lane_.note(ticket);
  // Around the whole step: destructors and callbacks are user code on this thread too, and may drop
  // the last handle or wait.
  TaskContext context{this, timeline_.get(), ticket, note.label, fiber_.get(), nullptr};
  const TaskScope scope(context);
  renew_stop_source();
  // acquire: pairs with the release in cancel_pending().
  if (ticket <= cancel_upto_.load(std::memory_order_acquire)) {
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
  // relaxed: pairs with the store in end_badly(), made by the consumer too.
  if (!poisoned_.load(std::memory_order_relaxed)) return {};
  const std::lock_guard lock(control_);
  return skip_reason_;
}

/// Ends a task whose gate refused it.
void DeviceCore::end_unrun(std::uint64_t ticket, const TaskNote& note, Status refusal,
                           bool contained) noexcept {
  if (refusal.code() == ErrorCode::cancelled) {
    drop(ticket, End::cancelled, refusal, note.contain);
  } else if (note.is_wait || !(contained || note.contain)) {
    lane_.at(ticket).ops->destroy(lane_.at(ticket).callable);
    end_badly(ticket, note, std::move(refusal), true);
  } else {
    drop(ticket, End::skipped, refusal, true);
  }
}

/// Waits for what the task comes after. false: not yet, and put_off_drain() will be called (inline
/// mode). `refusal`: why it must not run; `contained`: that failure was contained where it
/// happened.
bool DeviceCore::gate_open(std::uint64_t ticket, TaskNote& note, Status& refusal,
                           bool& contained) noexcept {
  for (const Event& event : *note.after) {
    if (!event.done()) {
      if (options_.mode == Mode::inline_ && !drain_until_) {
        if (!arm(event)) return false;
      } else if (Status waited = sleep_until_ended(event);
                 waited.code() == ErrorCode::cancelled && !event.done()) {
        refusal = std::move(waited);
        return true;
      }
    }
    if (Status ended = event.status(); !ended.ok()) {
      const auto& timeline = Timeline::of(event);
      contained = timeline && timeline->outcome(event.ticket()).contained;
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

void DeviceCore::run(std::uint64_t ticket, const TaskNote& note) noexcept {
  // relaxed: these three pair with the loads in snapshot(): for people, ordering nothing.
  running_label_.store(note.label, std::memory_order_relaxed);
  running_since_ns_.store(now_ns(), std::memory_order_relaxed);
  running_ticket_.store(ticket, std::memory_order_relaxed);
  auto& slot = lane_.at(ticket);
  Status result = run_guarded(*slot.ops, slot.callable);
  slot.ops->destroy(slot.callable);
  if (result.ok()) {
    count(done_);
    finish(ticket);
    return;
  }
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
    // release: pairs with the acquire in refusal(): who sees the poison finds its reason.
    poisoned_.store(true, std::memory_order_release);
  }
  finish(ticket);
}

/// Ends a task that does not run.
void DeviceCore::drop(std::uint64_t ticket, End end, const Status& why, bool contained) noexcept {
  auto& slot = lane_.at(ticket);
  slot.ops->destroy(slot.callable);
  count(end == End::skipped ? skipped_ : cancelled_);
  timeline_->note(ticket, ticket, end, why, contained);
  finish(ticket);
}

void DeviceCore::finish(std::uint64_t ticket) noexcept {
  if (lane_.note(ticket).after) {
    disarm();
    lane_.note(ticket).after.reset();
  }
  // relaxed: pairs with the load in snapshot().
  running_ticket_.store(0, std::memory_order_relaxed);
  running_label_.store(nullptr, std::memory_order_relaxed);
  timeline_->complete(ticket);
}

/// A stop request is for the task that was running: the next one gets a fresh token.
void DeviceCore::renew_stop_source() noexcept {
  // acquire: pairs with the release in cancel_pending().
  const std::uint64_t cancels = cancels_.load(std::memory_order_acquire);
  if (cancels == cancels_seen_) return;
  cancels_seen_ = cancels;
  std::stop_source fresh(std::nostopstate);
  try {
    fresh = std::stop_source();
  } catch (...) {  // without memory the next tasks cannot be asked to stop
  }
  const std::lock_guard lock(control_);
  // Also when nobody has requested a stop yet: who cancels may hold the old source and be about to.
  stop_source_.swap(fresh);
}

void DeviceCore::work() noexcept {
  const auto ready = [this] {
    // seq_cst: pairs with the store in stop_worker(); part of the re-check before parking. A ticket
    // that a stopped producer has not published yet is waited for asleep.
    return lane_.published(timeline_->completed() + 1) ||
           (stop_.load(std::memory_order_seq_cst) && drained());
  };
  while (true) {
    if (step() == Step::ran) continue;
    // seq_cst: as in ready().
    if (stop_.load(std::memory_order_seq_cst) && drained()) return;
    if (spin_until(ready, spin())) continue;
    // seq_cst: pairs with the load in wake(), see the protocol above.
    parked_.store(true, std::memory_order_seq_cst);
    if (ready()) {
      // relaxed: a producer that still sees it set leaves one token too many, which only costs a
      // turn.
      parked_.store(false, std::memory_order_relaxed);
      continue;
    }
    count(parks_);
    parker_.park();
  }
}

void DeviceCore::wake() noexcept {
  // seq_cst: pairs with the store in work(), see the protocol above.
  if (!parked_.load(std::memory_order_seq_cst)) return;
  // seq_cst: one waker takes the flag; the others have nothing to do.
  if (parked_.exchange(false, std::memory_order_seq_cst)) {
    // relaxed: a number for people.
    wakes_.fetch_add(1, std::memory_order_relaxed);
    parker_.unpark();
  }
}

}  // namespace heddle::sched
