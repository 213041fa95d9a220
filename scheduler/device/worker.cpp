// The consumer's side of a device: step(), turns, the worker thread.
#include "scheduler/device/worker.hpp"

#include <fmt/format.h>
#include <time.h>

#include <algorithm>

#include "heddle/observe.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/threads/spin.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/threads/what.hpp"

namespace heddle::sched {
namespace {

/// One writer at a time, so a plain add.
void count(std::atomic<std::uint64_t>& counter) noexcept {
  // relaxed: pairs with the relaxed loads in counters(); numbers for people, ordering nothing.
  counter.store(counter.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

/// The failure of a task that threw what is being handled.
[[gnu::cold]] Status failure_of_thrown() noexcept {
  Status failure;
  try {
    throw;
  } catch (const Error& e) {
    failure = e.status();
  } catch (const std::exception& e) {
    failure = Status(ErrorCode::device_failed, [&] { return what_of(e); });
  } catch (...) {
    failure = Status(ErrorCode::device_failed, "threw something that is no std::exception");
  }
  if (failure.ok()) failure = Status(ErrorCode::device_failed, "threw an Error without a failure");
  return failure.with_exception(std::current_exception());
}

/// Runs a callable, and destroys it. false: it failed, and is still there, for what it threw may
/// point into it.
[[gnu::always_inline]] inline bool run_guarded(const TaskOps& ops, void* callable,
                                               Status& failure) noexcept {
  try {
    return ops.run(callable, failure);
  } catch (...) {
    failure = failure_of_thrown();
  }
  return false;
}

/// Of a failure that others came after, again and again: without most of its causes.
Status shortened(Status failure) noexcept {
  if (failure.causes() < tuning::causes_max) return failure;
  return Status(failure.code(), "it came after earlier failures, whose texts are no longer kept",
                failure.root());
}

}  // namespace

/// Names this device in a trace that does not know it. What was traced before is of another one.
void DeviceCore::name_trace() noexcept {
  traced_until_ = std::max(traced_until_, trace::name(id_, timeline_->name()));
  traced_session_ = trace::session_now();
}

/// Notes down the task that ends.
inline void DeviceCore::trace_task(std::uint64_t ticket, trace::Ended ended) noexcept {
  if (traced_session_ != trace::session_now()) [[unlikely]]
    name_trace();
  traced_until_ = trace::record_task(traced_until_, id_, label(), ticket, ended);
}

std::uint32_t DeviceCore::step(TaskContext& context, std::uint32_t tasks_max) noexcept {
  if (health_.careful()) return step_carefully(context);
  return trace::on() ? step_plainly<true>(context, tasks_max)
                     : step_plainly<false>(context, tasks_max);
}

/// As step(), for tasks in a row that nothing is to be known about.
template <bool traced>
std::uint32_t DeviceCore::step_plainly(TaskContext& context, std::uint32_t tasks_max) noexcept {
  Timeline& timeline = *timeline_;
  const std::uint64_t first = timeline.completed() + 1;
  std::uint64_t ticket = first;
  for (auto& slot : lane_.stretch(first, tasks_max)) {
    const Found found = Lane<>::look(slot, ticket);
    if (!found.plain()) break;
    // Counts until the next task: destructors and callbacks are user code on this thread too, and
    // may drop the last handle or wait.
    context.ticket = ticket;
    // relaxed: pairs with the load in label(): for people, ordering nothing.
    label_.store(slot.label, std::memory_order_relaxed);
    if (!run_guarded(found.ops(), slot.callable, failure_)) [[unlikely]] {
      end_failed(ticket, {});
      ++ticket;
      break;
    }
    if constexpr (traced) trace_task(ticket, trace::Ended::done);
    if (timeline.pass(ticket) && look_around(ticket)) [[unlikely]] {
      ++ticket;
      break;
    }
    ++ticket;
  }
  return ticket != first ? static_cast<std::uint32_t>(ticket - first) : step_carefully(context);
}

/// After a ticket that somebody waits for, or waited for lately: whether the next task has to be
/// looked at before it runs.
[[gnu::noinline]] bool DeviceCore::look_around(std::uint64_t ticket) noexcept {
  if (timeline_->look(ticket)) call_back(ticket);
  return health_.careful();
}

/// Somebody waits for what ended. Callbacks are no part of the next task.
void DeviceCore::call_back(std::uint64_t ticket) noexcept {
  begin_trace();
  const bool any = timeline_->call_back(ticket);
  if (!any || traced_until_ == 0 || !trace::on()) return;
  trace::record_pause(trace::Kind::callbacks, id_, id_, ticket, traced_until_);
  begin_trace();
}

/// As step(), for one task that has to be looked at before it runs.
std::uint32_t DeviceCore::step_carefully(TaskContext& context) noexcept {
  const std::uint64_t ticket = timeline_->completed() + 1;
  const Found found = lane_.look(ticket);
  if (!found.published()) return 0;
  context.ticket = ticket;
  // relaxed, both: pair with the loads in snapshot(), for people.
  label_.store(lane_.at(ticket).label, std::memory_order_relaxed);
  looking_.store(true, std::memory_order_relaxed);
  const TaskNote none;
  const bool ended = look_closely(ticket, found.noted() ? lane_.note(ticket) : none);
  // relaxed: as above.
  if (ended) looking_.store(false, std::memory_order_relaxed);
  return ended ? 1 : 0;
}

/// Whether the task has ended.
bool DeviceCore::look_closely(std::uint64_t ticket, const TaskNote& note) noexcept {
  {
    const std::lock_guard lock(control_);
    health_.settle(ticket - 1);  // what was cancelled is looked at in this step
  }
  if (health_.cancelled(ticket)) {
    drop(ticket, End::cancelled,
         Status(ErrorCode::cancelled,
                [&] {
                  return fmt::format("device '{}': cancelled before it ran", timeline_->name());
                }),
         note.contain);
    return true;
  }
  if (const Status reason = skip_reason(); !reason.ok()) {
    drop(ticket, End::skipped, reason, false);
    return true;
  }
  Status refusal;
  bool contained = false;
  if (note.after && !gate_open(ticket, note, refusal, contained)) return false;
  disarm();
  begin_trace();
  if (!refusal.ok()) {
    end_unrun(ticket, note, std::move(refusal), contained);
    return true;
  }
  note_time();  // it may have waited
  // relaxed: as in step_carefully().
  looking_.store(false, std::memory_order_relaxed);
  Hooks* const simulation = simulated_ ? hooks() : nullptr;
  Status planted;
  if (simulation != nullptr) planted = simulation->begin_task(*this, ticket, !note.is_wait);
  if (!planted.ok()) {
    failure_ = std::move(planted);
    end_failed(ticket, note);
  } else if (run_guarded(lane_.look(ticket).ops(), lane_.at(ticket).callable, failure_)) {
    finish(ticket, trace::Ended::done);
  } else {
    end_failed(ticket, note);
  }
  if (simulation != nullptr) simulation->end_task(*this, ticket);
  return true;
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
    destroy(ticket);
    end_badly(ticket, note, std::move(refusal), true);
  } else {
    drop(ticket, End::skipped, refusal, true);
  }
}

/// Waits for what the task comes after. false: not yet, and the device will look again. `refusal`:
/// why it must not run; `contained`: that failure was contained where it happened.
bool DeviceCore::gate_open(std::uint64_t ticket, const TaskNote& note, Status& refusal,
                           bool& contained) noexcept {
  for (const auto& [event, heeded] : *note.after) {
    if (!event.done()) {
      const bool looks_again = runner_ && !(drain_until_ && now() >= *drain_until_);
      const std::optional<Waited> waited =
          looks_again ? arm(event) : sleep_until_ended(event, {drain_until_, false, true});
      if (!waited) return false;
      if (*waited == Waited::refused) {
        refusal = Status(
            ErrorCode::device_failed,
            [&] {
              return fmt::format("{} comes after {}, and cannot wait for it",
                                 describe(ticket, note), event.to_string());
            },
            take_wait_refusal());
        return true;
      }
      if (*waited != Waited::done) {
        refusal = Status(ErrorCode::cancelled, [&] {
          return fmt::format("device '{}': cancelled while it waited for {}", timeline_->name(),
                             event.to_string());
        });
        return true;
      }
    }
    if (!heeded) continue;
    // Whoever sees this task's end sees that failure in it.
    if (Status ended = event.status(); !ended.ok()) {
      contained = Timeline::outcome_of(event).contained;
      refusal = Status(
          ErrorCode::device_failed,
          [&] {
            return fmt::format("{} came after {}, which ended badly", describe(ticket, note),
                               event.to_string());
          },
          shortened(std::move(ended)));
      return true;
    }
  }
  return true;
}

/// "device 'work' task 'step' (ticket 7, submitted at main.cpp:12)"
std::string DeviceCore::describe(std::uint64_t ticket, const TaskNote& note) const {
  std::string text =
      fmt::format("device '{}' task '{}' (ticket {}", timeline_->name(), label(), ticket);
  if (note.site.line() != 0)
    text += fmt::format(", submitted at {}:{}", note.site.file_name(), note.site.line());
  return text + ")";
}

/// The task threw or returned failure_.
void DeviceCore::end_failed(std::uint64_t ticket, const TaskNote& note) noexcept {
  Status result = std::move(failure_);
  destroy(ticket);
  bool asked_to_stop = false;
  {
    const std::lock_guard lock(control_);
    asked_to_stop = stop_source_of(ticket).stop_requested();
  }
  if ((asked_to_stop || note.own_status) && result.code() == ErrorCode::cancelled) {
    count(cancelled_);
    timeline_->note(ticket, ticket, End::cancelled, result, note.contain);
    finish(ticket, trace::Ended::cancelled);
    return;
  }
  if (note.own_status) return end_badly(ticket, note, std::move(result), false);
  std::exception_ptr exception = result.exception();
  Status failure(
      ErrorCode::device_failed, [&] { return describe(ticket, note) + " failed"; },
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
        [&] {
          return fmt::format("device '{}': skipped because of an earlier failure",
                             timeline_->name());
        },
        why);
    poison_ticket_ = ticket;
    health_.poison();
  }
  simulated_point();
  finish(ticket, trace::Ended::failed);
}

/// Ends a task that does not run.
void DeviceCore::drop(std::uint64_t ticket, End end, const Status& why, bool contained) noexcept {
  destroy(ticket);
  count(end == End::skipped ? skipped_ : cancelled_);
  timeline_->note(ticket, ticket, end, why, contained);
  simulated_point();
  finish(ticket, end == End::skipped ? trace::Ended::skipped : trace::Ended::cancelled);
}

void DeviceCore::destroy(std::uint64_t ticket) noexcept {
  lane_.look(ticket).ops().destroy(lane_.at(ticket).callable);
}

void DeviceCore::finish(std::uint64_t ticket, trace::Ended ended) noexcept {
  if (lane_.note(ticket).after) {
    disarm();
    lane_.note(ticket).after.reset();
  }
  if (trace::on()) trace_task(ticket, ended);
  if (timeline_->advance(ticket)) call_back(ticket);
}

/// When tasks begin, roughly, for people: a clock that costs little, read now and then.
void DeviceCore::note_time() noexcept {
  timespec coarse{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &coarse);
  const std::chrono::nanoseconds time =
      simulated_ ? now().time_since_epoch()
                 : std::chrono::seconds(coarse.tv_sec) + std::chrono::nanoseconds(coarse.tv_nsec);
  // relaxed: pairs with the load in snapshot(); orders nothing.
  clock_ns_.store(time.count(), std::memory_order_relaxed);
}

/// No task runs.
void DeviceCore::rest() noexcept {
  // relaxed: pairs with the load in snapshot(): for people.
  label_.store(nullptr, std::memory_order_relaxed);
}

bool DeviceCore::take_turn(Fiber* fiber, std::uint32_t tasks_max) noexcept {
  std::shared_ptr<DeviceCore> kept;
  TaskContext context{this, id_, 0, fiber, nullptr};
  const TaskScope scope(context);
  note_time();
  begin_trace();
  std::uint64_t known = 1;
  while (true) {
    while (tasks_max != 0) {
      const std::uint32_t ended = step(context, tasks_max);
      if (ended == 0) break;
      tasks_max -= ended;
    }
    rest();
    if (tasks_max == 0 && lane_.look(timeline_->completed() + 1).published()) return true;
    if (kept_ && drained()) {
      kept = std::move(kept_);
      runner_->uncall(*drain_until_, drain_call_);
    }
    tell_left_ended();
    if (simulated_) simulated_point();
    if (turns_.end(known)) return false;
  }
}

void DeviceCore::work() noexcept {
  const auto stopping = [this] {
    // acquire: pairs with the release in stop_worker().
    return stop_.load(std::memory_order_acquire) && drained();
  };
  // A ticket that a stopped producer has not published yet is waited for asleep.
  const auto ready = [&] {
    return lane_.look(timeline_->completed() + 1).published() || stopping();
  };
  TaskContext context{this, id_, 0, nullptr, nullptr};
  const TaskScope scope(context);
  begin_trace();
  std::uint32_t until_clock = tuning::tasks_per_clock_read;
  while (true) {
    std::uint32_t row = 0;
    while (const std::uint32_t ended = step(context, until_clock)) {
      row += ended;
      until_clock -= ended;
      if (until_clock != 0) continue;
      note_time();
      until_clock = tuning::tasks_per_clock_read;
    }
    rest();
    if (row >= tuning::row_min && lane_.shared()) let_gather();
    if (stopping()) return tell_left_ended();
    const bool soon = spin_until(ready, spin());
    if (!soon) {
      doorbell_.park();
      if (ready()) {
        doorbell_.unpark();
      } else {
        count(parks_);
        const std::uint64_t since = trace::stamp_if_on();
        parker_.park();
        trace::record_park(id_, since);
      }
    } else {
      count(spins_);
    }
    note_time();
    begin_trace();
  }
}

/// Several producers, whose tasks end faster than they come: a worker close behind them takes each
/// slot's line away while they write it, and each ticket waits for that. So they get a start, as
/// long as they use it.
void DeviceCore::let_gather() noexcept {
  std::uint64_t ticket = timeline_->completed();
  for (int look = 0; look < tuning::gather_looks; ++look) {
    for (int k = 0; k < tuning::gather_spins; ++k) cpu_relax();
    ticket += tuning::gathered_min;
    if (!lane_.look(ticket).published()) return;
  }
}

void DeviceCore::wake_worker() noexcept {
  // relaxed: a number for people.
  wakes_.fetch_add(1, std::memory_order_relaxed);
  trace::note_wake(id_);
  parker_.unpark();
}

}  // namespace heddle::sched
