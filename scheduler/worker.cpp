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
  TaskContext context{this, timeline_.get(), ticket, note.label, nullptr};
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

/// Waits for what the task comes after. false: not yet, and gate_opened() will be called (inline
/// mode). `refusal`: why it must not run; `contained`: that failure was contained where it
/// happened.
bool DeviceCore::gate_open(std::uint64_t ticket, TaskNote& note, Status& refusal,
                           bool& contained) noexcept {
  for (const Event& event : *note.after) {
    if (!event.done()) {
      if (options_.mode == Mode::inline_ && !drain_until_) {
        if (!arm(event)) return false;
      } else if (Status waited = wait_inside(event);
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

/// Sees to it that gate_opened() is called once `event` is done; true: it is done already.
bool DeviceCore::arm(const Event& event) noexcept {
  const auto& timeline = Timeline::of(event);
  if (armed_.timeline == timeline && armed_.ticket == event.ticket()) return event.done();
  disarm();
  try {
    armed_.call = timeline->call(event.ticket(), [self = weak_from_this()] {
      if (const auto core = self.lock()) core->gate_opened();
    });
  } catch (...) {  // no memory to be called back
    event.wait();
    return true;
  }
  if (event.done()) {
    disarm();
    return true;
  }
  armed_.timeline = timeline;
  armed_.ticket = event.ticket();
  const std::lock_guard lock(control_);
  waiting_for_ = event.to_string();
  return false;
}

/// The gate that was armed is passed, or given up.
void DeviceCore::disarm() noexcept {
  if (!armed_.timeline) {
    armed_.call = 0;
    return;
  }
  armed_.timeline->uncall(armed_.call);
  armed_ = {};
  const std::lock_guard lock(control_);
  waiting_for_.clear();
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

/// Whoever raises the count from zero drains; the others have left their request in it, and it is
/// not given back to zero before a look at the queue that came after the last request.
void DeviceCore::drain() noexcept {
  // seq_cst: release pairs with the acquire of the exchange below, so the drainer sees the
  // published task.
  if (drain_requests_.fetch_add(1, std::memory_order_seq_cst) > 0) return;
  const auto self = shared_from_this();  // a task may drop the last handle
  std::uint64_t handled = 1;
  while (true) {
    while (step() == Step::ran) {
    }
    // seq_cst: pairs with the requests above, and hands the consumer's state to the next drainer.
    if (drain_requests_.compare_exchange_strong(handled, 0, std::memory_order_seq_cst)) return;
  }
}

namespace {

/// The inline devices that this thread has to drain, first to last, and whether it does so already.
struct PutOff {
  std::shared_ptr<DeviceCore> first;
  DeviceCore* last = nullptr;
  bool draining = false;
};
thread_local PutOff put_off;

}  // namespace

/// The event that an inline device waited for is done, and this thread ended it. Draining here and
/// now would nest as deep as devices wait for each other, and would hold up other devices that wait
/// for the same event: it is put off until all of them are called.
void DeviceCore::gate_opened() noexcept {
  // acq_rel: pairs with the release in drain_put_off(): the list's link is ours now. If it is still
  // raised, its owner will look at the queue after this.
  if (put_off_.exchange(true, std::memory_order_acq_rel)) return;
  auto& end = put_off.last == nullptr ? put_off.first : put_off.last->next_put_off_;
  end = shared_from_this();
  put_off.last = this;
}

void DeviceCore::drain_put_off() noexcept {
  while (put_off.first) {
    const auto core = std::move(put_off.first);
    put_off.first = std::move(core->next_put_off_);
    if (!put_off.first) put_off.last = nullptr;
    // acq_rel: release pairs with the exchange in gate_opened(); acquire: who found it raised came
    // before, so this drain sees the event done.
    core->put_off_.exchange(false, std::memory_order_acq_rel);
    core->drain();
  }
}

void run_put_off() noexcept { DeviceCore::drain_put_off(); }

void settle_put_off() noexcept {
  if (put_off.draining || !put_off.first) return;
  put_off.draining = true;
  DeviceCore::drain_put_off();
  put_off.draining = false;
}

}  // namespace heddle::sched
