// Waits on the current thread, whatever it runs, and their status.
#include "scheduler/device/waiting.hpp"

#include <fmt/format.h>

#include "scheduler/device/clocks.hpp"
#include "scheduler/device/hand_over.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/traced_wait.hpp"
#include "scheduler/device/whole.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {

void trace_wait(const Event& event, std::uint64_t track, std::uint64_t begin) noexcept {
  if (begin == 0) return;
  trace::record_pause(trace::Kind::wait, track, event.device_id(), event.ticket(), begin);
}

bool is_told_here(const Event& event) noexcept {
  const std::uint64_t domain = TellsEnds::here();
  if (domain == 0 || Timeline::has_ended(event)) return false;
  const auto on = Timeline::of(event)->hand_over(event);
  return on && on->queue->domain() == domain;
}

Waited wait_here(const Event& event, std::optional<Event::Clock::time_point> deadline,
                 std::chrono::nanoseconds spin, bool heeds_stop) noexcept {
  run_put_off();  // the caller may be a callback that delays other callbacks of its event
  if (Timeline::has_ended(event)) return Waited::done;
  if (in_part()) return Waited::refused;
  if (TaskContext* const task = current_task(); task != nullptr && task->ending == nullptr)
    return Whole::wait_in_task(*task->device, event, deadline, heeds_stop);
  if (Hooks* const simulation = hooks(); simulation != nullptr)
    return simulation->wait(event, deadline);
  // The awaited event may end only after other ends reported by this thread.
  if (deadline ? is_told_here(event) : TellsEnds::in_callback()) return Waited::refused;
  const TracedWait traced(event);
  Timeline& timeline = *Timeline::of(event);
  if (const auto runner = timeline.runner(event)) {
    if (const auto done = runner->run_until(event, deadline))
      return *done ? Waited::done : Waited::late;
  }
  return timeline.wait(event.device_id(), event.ticket(), deadline, spin) ? Waited::done
                                                                          : Waited::late;
}

Status part_refusal(const std::string& what) {
  return Status(ErrorCode::failed_precondition, [&] {
    return fmt::format(
        "a part of task '{}': {} would hold up a thread that other parts need; do it before the "
        "task (SubmitOptions::after) or in a task after it",
        this_task::label(), what);
  });
}

Status await_until(const Event& event, std::optional<Event::Clock::time_point> deadline) noexcept {
  if (event.done()) return event.status();  // the caller has seen the end
  const TaskContext* const task = current_task();
  if (waits_for_itself(event.device_id(), event.ticket())) {
    return Status(ErrorCode::failed_precondition, [&] {
      return fmt::format(
          "task '{}' (ticket {}) waits for {}, which can only end after it; "
          "submit a task that comes after that event instead",
          Whole::label(*task->device), task->ticket, event.to_string());
    });
  }
  const Timeline& timeline = *Timeline::of(event);
  if (timeline.in_forked_child()) return timeline.fork_refusal();
  const Waited waited = wait_here(event, deadline, tuning::spin_default);
  if (waited == Waited::done && Clocks::on()) Clocks::saw(event);
  return status_of(waited, event);
}

Status status_of(Waited waited, const Event& event) {
  switch (waited) {
    case Waited::done:
      return event.status();
    case Waited::late:
      return Status(ErrorCode::deadline, [&] {
        return fmt::format("{} had not ended at the deadline", event.to_string());
      });
    case Waited::refused:
      if (in_part()) return part_refusal("waiting for " + event.to_string());
      if (const TaskContext* const task = current_task();
          task != nullptr && task->ending == nullptr)
        return Whole::take_refusal(*task->device);
      return Status(ErrorCode::failed_precondition, [&] {
        return fmt::format(
            "a callback would wait for {} on the thread that tells the ends of a completion "
            "domain, and hold all of them up; have it called by an executor: "
            "Event::then(executor, callback)",
            event.to_string());
      });
    case Waited::stopped:
      break;
  }
  const TaskContext* const task = current_task();
  if (task == nullptr) {
    return Status(ErrorCode::cancelled, [&] {
      return fmt::format("nobody in this simulation will end {}", event.to_string());
    });
  }
  return Status(ErrorCode::cancelled, [&] {
    return fmt::format("task '{}' was asked to stop while it waited for {}",
                       Whole::label(*task->device), event.to_string());
  });
}

}  // namespace heddle::sched
