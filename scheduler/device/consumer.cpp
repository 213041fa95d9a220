// step(), turns, the worker thread.
#include "scheduler/device/consumer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "heddle/observe.hpp"
#include "scheduler/device/drain.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/threads/spin.hpp"
#include "scheduler/threads/task_context.hpp"
#include "scheduler/threads/what.hpp"

namespace heddle::sched {
namespace {

/// Runs a callable and destroys it. false: the callable failed and still exists, because the thrown
/// exception may point into it.
[[gnu::always_inline]] inline bool run_guarded(const TaskOps& ops, void* callable,
                                               Status& failure) noexcept {
  try {
    return ops.run(callable, failure);
  } catch (...) {
    failure = failure_of_thrown();
  }
  return false;
}

}  // namespace

Consumer::Consumer(const Identity& device, Admission& admission, Summons& summons, Control& control,
                   Drain& drain)
    : trace_(device),
      waits_(device, control, drain, trace_),
      late_ends_(
          device.options.in_flight == 0
              ? nullptr
              : std::make_unique<LateEnds>(device, admission.lane(), summons, control, ending_)),
      ending_(device, control, admission.lane(), late_ends_ ? late_ends_->running() : running_,
              late_ends_ ? late_ends_->trace() : trace_, waits_),
      device_(device),
      lane_(admission.lane()),
      summons_(summons),
      control_(control),
      drain_(drain) {}

/// Ends up to `tasks_max` tasks: runs, skips or cancels them. Returns how many; 0: no task is
/// queued, or the next task cannot begin yet. The thread notes the running task in `context`.
std::uint32_t Consumer::step(TaskContext& context, std::uint32_t tasks_max) noexcept {
  if (control_.health().careful()) return step_carefully(context);
  return trace::on() ? step_plainly<true>(context, tasks_max)
                     : step_plainly<false>(context, tasks_max);
}

/// step() on the fast path: for a row of plain tasks, which need no checks.
template <bool traced>
std::uint32_t Consumer::step_plainly(TaskContext& context, std::uint32_t tasks_max) noexcept {
  Timeline& timeline = *device_.timeline;
  const std::uint64_t first = timeline.completed() + 1;
  std::uint64_t ticket = first;
  for (auto& slot : lane_.stretch(first, tasks_max)) {
    const Found found = Lane<>::look(slot, ticket);
    if (!found.plain()) break;
    // The ticket stays set until the next task: destructors and callbacks are user code on this
    // thread too, and may drop the last handle or wait.
    context.ticket = ticket;
    running_.run(slot.label);
    if (!run_guarded(found.ops(), slot.callable, failure_)) [[unlikely]] {
      ending_.failed(ticket, {}, std::move(failure_));
      ++ticket;
      break;
    }
    if constexpr (traced) trace_.end_task(running_.label(), ticket, trace::Ended::done);
    if (timeline.pass(ticket) && look_around(ticket)) [[unlikely]] {
      ++ticket;
      break;
    }
    ++ticket;
  }
  return ticket != first ? static_cast<std::uint32_t>(ticket - first) : step_carefully(context);
}

/// Called after a ticket that has waiters, or had some lately. Returns whether the next task needs
/// checks before it runs.
[[gnu::noinline]] bool Consumer::look_around(std::uint64_t ticket) noexcept {
  if (device_.timeline->look(ticket)) ending_.call_back(ticket);
  return control_.health().careful();
}

/// step() for a single task that needs checks first.
std::uint32_t Consumer::step_carefully(TaskContext& context) noexcept {
  const std::uint64_t ticket = at() + 1;
  const Found found = lane_.look(ticket);
  if (!found.published()) return 0;
  context.ticket = ticket;
  running_.begin_look(lane_.at(ticket).label);
  const TaskNote none;
  const bool ended = look_closely(ticket, found.noted() ? lane_.note(ticket) : none);
  if (ended) running_.end_look();
  return ended ? 1 : 0;
}

/// True if the task has ended, or was issued.
bool Consumer::look_closely(std::uint64_t ticket, const TaskNote& note) noexcept {
  if (late_ends_ && !may_begin(ticket)) return false;
  control_.settle(ticket);  // cancelled tickets are handled in this step
  if (control_.health().cancelled(ticket)) {
    drop(ticket, End::cancelled, Status(ErrorCode::cancelled, [&] {
           return fmt::format("device '{}': cancelled before it ran", device_.name());
         }));
    return true;
  }
  if (const Status reason = control_.skip_reason(); !reason.ok()) {
    drop(ticket, End::skipped, reason);
    return true;
  }
  Status refusal;
  if (!note.after.empty() && !gate_open(ticket, note, refusal)) return false;
  waits_.leave_gate();
  trace_.begin();
  if (refusal.ok()) {
    run_closely(ticket, note);
  } else {
    refuse(ticket, note, std::move(refusal));
  }
  return true;
}

void Consumer::run_closely(std::uint64_t ticket, const TaskNote& note) noexcept {
  running_.note_time(device_);  // the task may have waited
  running_.end_look();
  Hooks* const simulation = device_.simulated ? hooks() : nullptr;
  Status planted;
  if (simulation != nullptr) planted = simulation->begin_task(device_.core, ticket, !note.is_wait);
  if (late_ends_) {
    issue(ticket, std::move(planted));
  } else if (!planted.ok()) {
    ending_.failed(ticket, note, std::move(planted));
  } else if (run_guarded(lane_.look(ticket).ops(), lane_.at(ticket).callable, failure_)) {
    ending_.done(ticket);
  } else {
    ending_.failed(ticket, note, std::move(failure_));
  }
  if (simulation != nullptr) simulation->end_task(device_.core, ticket);
}

void Consumer::drop(std::uint64_t ticket, End end, const Status& why) noexcept {
  pass_over(ticket);
  if (!late_ends_) return ending_.drop(ticket, end, why);
  late_ends_->dropped(ticket, end, why);
}

void Consumer::refuse(std::uint64_t ticket, const TaskNote& note, Status why) noexcept {
  pass_over(ticket);
  if (!late_ends_) return ending_.refused(ticket, note, why);
  late_ends_->refused(ticket, std::move(why));
}

/// The task must not run. On devices that have tasks in flight, the task begins and will end.
void Consumer::pass_over(std::uint64_t ticket) noexcept {
  if (late_ends_) begin_late(ticket);
  const TaskOps& ops = lane_.look(ticket).ops();
  if (ops.pass_over != nullptr) ops.pass_over(lane_.at(ticket).callable);
}

// Devices that have tasks in flight.

/// True if the tickets required to end before this task have ended; else the device will look
/// again.
bool Consumer::may_begin(std::uint64_t ticket) noexcept {
  const std::uint64_t first = late_ends_->begins_after(ticket);
  return device_.timeline->completed() >= first || waits_.for_own(device_.timeline->event(first));
}

void Consumer::begin_late(std::uint64_t ticket) noexcept {
  waits_.leave_gate();
  // Moved out before the completer, which waits for no event, owns the task.
  auto after = std::move(lane_.note(ticket).after);
  late_ends_->begin(ticket, handed_over_ == ticket ? std::move(after) : AwaitedList());
}

/// `planted`: ok, or the failure that replaces the task.
void Consumer::issue(std::uint64_t ticket, Status planted) noexcept {
  begin_late(ticket);
  const TaskOps& ops = lane_.look(ticket).ops();
  failure_ = std::move(planted);
  const bool ran = failure_.ok() && run_guarded(ops, lane_.at(ticket).callable, failure_);
  if (ran && ops.finish == nullptr) {
    late_ends_->ran(ticket);
  } else {
    late_ends_->issued(ticket, ran ? Status() : std::move(failure_));
  }
}

/// Waits for the task's predecessors to end, or, for predecessors that the hardware can wait for,
/// until they are issued. false: still pending, and the device will look again. `refusal`: why the
/// task must not run.
bool Consumer::gate_open(std::uint64_t ticket, const TaskNote& note, Status& refusal) noexcept {
  const bool ahead = late_ends_ && lane_.look(ticket).ops().finish != nullptr;
  for (const Awaited& each : note.after) {
    const Event until = ahead ? late_ends_->gate_of(each.event) : each.event;
    if (!pass_gate(ticket, note, each, until, refusal)) return false;
    if (!refusal.ok()) return true;
  }
  if (!ahead) return true;
  // No predecessor delays the task here any more.
  bool handed = false;
  for (const Awaited& each : note.after) {
    if (!Timeline::has_ended(each.event) && late_ends_->hand_over(each.event)) {
      handed = true;
      continue;
    }
    if (!pass_gate(ticket, note, each, each.event, refusal)) return false;
    if (!refusal.ok()) return true;
  }
  if (handed) handed_over_ = ticket;
  return true;
}

/// gate_open() for a single predecessor `each`, or for its substitute `until`.
bool Consumer::pass_gate(std::uint64_t ticket, const TaskNote& note, const Awaited& each,
                         const Event& until, Status& refusal) noexcept {
  const Event& event = each.event;
  if (!Timeline::has_ended(until)) {
    const std::optional<Waited> waited = waits_.at_gate(event, until);
    if (!waited) return false;
    if (*waited == Waited::refused) {
      refusal = Status(
          ErrorCode::device_failed,
          [&] {
            return fmt::format("{} comes after {}, and cannot wait for it",
                               ending_.describe(running_.label(), ticket, note), event.to_string());
          },
          waits_.take_refusal());
      return true;
    }
    if (*waited != Waited::done) {
      refusal = Status(ErrorCode::cancelled, [&] {
        return fmt::format("device '{}': cancelled while it waited for {}", device_.name(),
                           event.to_string());
      });
      return true;
    }
  }
  refusal = ending_.refusal_by({&each, 1}, ticket, note);
  return true;
}

bool Consumer::take_turn(Fiber* fiber, std::uint32_t tasks_max) noexcept {
  std::shared_ptr<DeviceCore> kept;
  TaskContext context{&device_.core, device_.id, 0, fiber, nullptr};
  const TaskScope scope(context);
  running_.note_time(device_);
  trace_.begin();
  if (short_ != Short::none) [[unlikely]]
    end_short_turn(context);
  std::uint64_t known = 1;
  while (true) {
    while (tasks_max != 0) {
      const std::uint32_t ended = step(context, tasks_max);
      if (ended == 0) break;
      tasks_max -= ended;
    }
    running_.rest();
    if (tasks_max == 0 && lane_.look(at() + 1).published()) return true;
    if (auto device = drain_.give_up()) kept = std::move(device);
    drain_.tell_left_ended();
    if (device_.simulated) simulated_point();
    if (summons_.end_turn(known)) return false;
  }
}

bool Consumer::take_short_turn() noexcept {
  if (short_ != Short::none) return false;  // left by a turn that was put off
  const std::uint64_t ticket = at() + 1;
  const Found found = lane_.look(ticket);
  if (!found.plain() || !found.ops().never_waits || control_.health().careful() || trace::on())
    return false;
  TaskContext context{&device_.core, device_.id, ticket, nullptr, nullptr};
  auto& slot = lane_.at(ticket);
  {
    const TaskScope scope(context);
    running_.note_time(device_);
    running_.run(slot.label);
    if (!run_guarded(found.ops(), slot.callable, failure_)) [[unlikely]] {
      short_ = Short::failed;
      return false;
    }
  }
  running_.rest();
  Timeline& timeline = *device_.timeline;
  if (timeline.pass(ticket) && timeline.look(ticket)) [[unlikely]] {
    short_ = Short::has_waiters;
    return false;
  }
  std::uint64_t known = 1;
  return !drain_.keeps() && !lane_.look(ticket + 1).published() && summons_.end_turn(known);
}

/// What the task of a short turn left to do, where the thread may wait.
void Consumer::end_short_turn(TaskContext& context) noexcept {
  const bool failed = std::exchange(short_, Short::none) == Short::failed;
  if (failed) {
    context.ticket = at() + 1;
    ending_.failed(context.ticket, {}, std::move(failure_));
  } else {
    context.ticket = at();
    ending_.call_back(context.ticket);
  }
}

void Consumer::work() noexcept {
  // The worker sleeps while it waits for a ticket that a stalled producer has not published yet.
  const auto ready = [&] { return lane_.look(at() + 1).published() || drain_.stopping(); };
  TaskContext context{&device_.core, device_.id, 0, nullptr, nullptr};
  const TaskScope scope(context);
  trace_.begin();
  std::uint32_t until_clock = tuning::tasks_per_clock_read;
  running_.note_time(device_);  // a task may be there already
  while (true) {
    std::uint64_t row = 0;
    while (const std::uint32_t ended = step(context, until_clock)) {
      row += ended;
      until_clock -= ended;
      if (until_clock != 0) continue;
      running_.note_time(device_);
      until_clock = tuning::tasks_per_clock_read;
      if (row >= device_.profile.row_min) give_start(row);
    }
    running_.rest();
    if (row >= device_.profile.row_min) give_start(row);
    if (drain_.stopping()) return drain_.tell_left_ended();
    const bool soon = spin_until(ready, device_.spin());
    if (!soon) {
      summons_.about_to_sleep();
      if (ready()) {
        summons_.stay_up();
      } else {
        count(parks_);
        const std::uint64_t since = trace::stamp_if_on();
        summons_.sleep();
        if (!late_ends_) trace::record_park(device_.id, since);  // else the record would not nest
      }
    } else {
      count(spins_);
    }
    running_.note_time(device_);
    trace_.begin();
  }
}

/// Tasks end as fast as they come: a worker close behind its producers takes each slot's line away
/// during the write, and both sides slow down to the rate of cache-line transfers. After a row of
/// `row` tasks, the worker therefore pauses and gives the producers a start. A long row gets a long
/// start: a worker faster than its producers is close behind again after a few times the start. A
/// first pause shows how fast tasks come. The worker stops if they come so slowly that transfers of
/// lines cost little, and otherwise looks when the next step of the start should be there.
void Consumer::give_start(std::uint64_t row) noexcept {
  const SchedulerProfile& machine = device_.profile;
  const std::uint64_t most = std::max<std::uint64_t>(1, lane_.capacity() / 2);
  const auto has = [&](std::uint64_t tasks) { return lane_.look(at() + tasks).published(); };
  const std::uint64_t start = std::clamp<std::uint64_t>(
      std::max<std::uint64_t>(std::min(row / tuning::row_per_start, tuning::start_max),
                              machine.start_tasks),
      1, most);
  const std::uint64_t close = std::max<std::uint64_t>(start / 2, machine.close_behind);
  if (has(std::clamp<std::uint64_t>(close, 1, most))) return;
  const auto pause = [](std::uint64_t times) {
    for (std::uint64_t k = std::min(times, tuning::start_pauses_max); k > 0; --k) cpu_relax();
  };
  const std::uint64_t first = std::min<std::uint64_t>(
      std::max(row / tuning::row_per_pause, tuning::first_pauses_min), machine.start_pauses);
  pause(first);
  std::uint64_t came = 0;  // a lower bound, at least half
  for (std::uint64_t tasks = 1; tasks <= start && has(tasks); tasks *= 2) came = tasks;
  if (came < tuning::start_came_min) return;
  const std::uint64_t step = std::max(start / tuning::looks_per_start, tuning::start_step);
  const std::uint64_t pauses = first * step / came;
  while (came < start && !drain_.stopping()) {
    pause(pauses);
    const std::uint64_t before = came;
    while (came < start && has(std::min(came + step, start))) came += step;
    if (came == before) return;  // submissions end
  }
}

void Consumer::show(Snapshot& snapshot) const {
  if (late_ends_) {
    late_ends_->show(snapshot);
  } else {
    running_.show(snapshot);
  }
}

void Consumer::show(Counters& counters) const noexcept {
  ending_.show(counters);
  // relaxed: statistics; pairs with the stores of count().
  counters.parks = parks_.load(std::memory_order_relaxed);
  counters.spins = spins_.load(std::memory_order_relaxed);
}

}  // namespace heddle::sched
