// Waits of tasks and gates.
#include "scheduler/device/task_waits.hpp"

#include <fmt/format.h>

#include <thread>

#include "scheduler/device/drain.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/traced_wait.hpp"
#include "scheduler/device/wait_graph.hpp"
#include "scheduler/device/whole.hpp"
#include "scheduler/threads/spin.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {

/// Shows the event that the running task waits for in snapshots.
class TaskWaits::Shown {
 public:
  Shown(TaskWaits& waits, const Event& event) noexcept
      : waits_(waits), event_(event), since_(waits.stamp()) {
    waits_.control_.note_wait(event);
  }
  ~Shown() {
    waits_.control_.note_wait({});
    trace_wait(event_, waits_.device_.id, since_);
  }
  Shown(const Shown&) = delete;
  Shown& operator=(const Shown&) = delete;

 private:
  TaskWaits& waits_;
  const Event& event_;
  const std::uint64_t since_;
};

/// Notes the running task's wait in the graph of waits, unless it would close a cycle.
class TaskWaits::InGraph {
 public:
  InGraph(TaskWaits& waits, const Event& event, WaitManner manner,
          const std::stop_token& stop) noexcept
      : task_(*current_task()), manner_(manner) {
    waits.refusal_ = WaitGraph::enter(task_, event, manner_, stop);
    refused_ = !waits.refusal_.ok();
  }
  ~InGraph() {
    if (!refused_) WaitGraph::leave(task_, manner_);
  }
  InGraph(const InGraph&) = delete;
  InGraph& operator=(const InGraph&) = delete;
  [[nodiscard]] bool refused() const noexcept { return refused_; }

 private:
  const TaskContext& task_;
  const WaitManner manner_;
  bool refused_ = false;
};

namespace {

/// A runner's callback at a point in time, if one is given, for the lifetime of this object.
class Alarm {
 public:
  Alarm(Runner& runner, std::optional<Event::Clock::time_point> when,
        const std::function<void()>& callback)
      : runner_(runner), when_(when) {
    if (when_) call_ = runner_.call_at(*when_, callback);
  }
  ~Alarm() {
    if (call_ != 0) runner_.uncall(*when_, call_);
  }
  Alarm(const Alarm&) = delete;
  Alarm& operator=(const Alarm&) = delete;
  /// True if the runner has a timer, or needs none.
  [[nodiscard]] bool set() const noexcept { return !when_ || call_ != 0; }

 private:
  Runner& runner_;
  const std::optional<Event::Clock::time_point> when_;
  std::uint64_t call_ = 0;
};

}  // namespace

Waited TaskWaits::in_task(const Event& event, Deadline deadline, bool heeds_stop) noexcept {
  // Set when the device has no handles any more and an alarm exists for the end of its time.
  const Deadline end = drain_.until();
  const bool bounded =
      heeds_stop && end && (!device_.runner || drain_.keeps()) && (!deadline || *end < *deadline);
  const Deadline until = bounded ? end : deadline;
  std::optional<Waited> waited;
  const Limits limits{until, deadline.has_value(), heeds_stop};
  if (Fiber* const fiber = current_task()->fiber; fiber != nullptr)
    waited = suspend(*fiber, event, limits);
  // A sleep could block the very thread that must end the event.
  if (!waited && device_.runner && !until) return refuse_memory(event);
  if (!waited) waited = sleep(event, event, limits);
  return bounded && *waited == Waited::late ? Waited::stopped : *waited;
}

/// No memory to suspend the task and leave this thread to other devices.
Waited TaskWaits::refuse_memory(const Event& event) noexcept {
  refusal_ = Status(ErrorCode::exhausted, [&] {
    return fmt::format("device '{}': no memory to wait for {}", device_.name(), event.to_string());
  });
  return Waited::refused;
}

/// Leaves the running task's fiber until `event` is done; nullopt: the task cannot be suspended.
std::optional<Waited> TaskWaits::suspend(Fiber& fiber, const Event& event,
                                         const Limits& limits) noexcept {
  const Deadline& deadline = limits.deadline;
  try {
    before_allocation();
    const std::stop_token stop = limits.heeds_stop ? this_task::stop_token() : std::stop_token();
    const std::function<void()> wake = [mine = fiber.shared_from_this(), runner = device_.runner] {
      if (mine->unpark()) runner->resume(mine);
    };
    const Alarm alarm(*device_.runner, deadline, wake);
    if (!alarm.set()) return std::nullopt;
    const InGraph noted(*this, event, {.holds_up = false, .timed = limits.timed}, stop);
    if (noted.refused()) return Waited::refused;
    const Shown shown(*this, event);
    const std::stop_callback on_stop(stop, wake);
    const std::uint64_t call = Timeline::call(event, wake);
    Waited waited = Waited::done;
    while (!Timeline::has_ended(event)) {
      simulated_point();
      if (stop.stop_requested()) {
        waited = Waited::stopped;
      } else if (deadline && now() >= *deadline) {
        waited = Waited::late;
      } else {
        suspend_task();
        continue;
      }
      break;
    }
    Timeline::of(event)->uncall(call);
    return waited;
  } catch (...) {  // no memory to suspend
    return std::nullopt;
  }
}

/// Blocks the thread until `until` is done, which stands for `event`.
Waited TaskWaits::sleep(const Event& event, const Event& until, const Limits& limits) noexcept {
  const Deadline& deadline = limits.deadline;
  const std::stop_token stop = limits.heeds_stop ? this_task::stop_token() : std::stop_token();
  const WaitManner manner{.holds_up = true, .timed = limits.timed};
  const auto ended = [&] { return Timeline::has_ended(until) || stop.stop_requested(); };
  const auto late = [&] { return deadline && now() >= *deadline; };
  if (Hooks* const simulation = hooks(); simulation != nullptr) {
    const InGraph noted(*this, event, manner, stop);
    if (noted.refused()) return Waited::refused;
    while (!ended() && !late() && simulation->pass()) {
    }
  } else if (!spin_until(ended,
                         deadline ? spin_before(*deadline, device_.spin()) : device_.spin())) {
    const InGraph noted(*this, event, manner, stop);
    if (noted.refused()) return Waited::refused;
    try {
      const auto parker = std::make_shared<Parker>();
      const Shown shown(*this, event);
      const std::stop_callback on_stop(stop, [parker] { parker->unpark(); });
      const std::uint64_t call = Timeline::call(until, [parker] { parker->unpark(); });
      while (!ended() && parker->park(deadline)) {
      }
      Timeline::of(until)->uncall(call);
    } catch (...) {  // no memory for a parker or callback
      while (!ended() && !late()) std::this_thread::sleep_for(tuning::pause_without_memory);
    }
  }
  if (Timeline::has_ended(until)) return Waited::done;
  return stop.stop_requested() ? Waited::stopped : Waited::late;
}

std::optional<Waited> TaskWaits::at_gate(const Event& event, const Event& until) noexcept {
  const Deadline end = drain_.until();
  const bool looks_again = device_.runner && !(end && now() >= *end);
  return looks_again ? arm(event, until) : sleep(event, until, {end, false, true});
}

bool TaskWaits::for_own(const Event& event) noexcept {
  if (Timeline::has_ended(event)) return true;
  // Without memory for a callback, the thread waits here.
  if (device_.runner && arm(event, event) != Waited::refused) return Timeline::has_ended(event);
  return sleep(event, event, {{}, false, false}) == Waited::done;
}

/// Arranges another look of this device once `until`, the substitute of `event`, is done; else
/// returns how the wait ended at once.
std::optional<Waited> TaskWaits::arm(const Event& event, const Event& until) noexcept {
  if (armed_.call != 0 && armed_.until.device_id() == until.device_id() &&
      armed_.until.ticket() == until.ticket()) {
    return Timeline::has_ended(until) ? std::optional(Waited::done) : std::nullopt;
  }
  leave_gate();
  simulated_point();
  const TaskContext& task = *current_task();
  refusal_ = WaitGraph::enter(task, event, {}, this_task::stop_token());
  if (!refusal_.ok()) return Waited::refused;
  try {
    armed_.call = Timeline::call(until, [self = Whole::watch(device_.core)] {
      if (const auto core = self.lock()) Whole::look_later(*core);
    });
  } catch (...) {  // no memory for the callback
    WaitGraph::leave(task, {});
    return refuse_memory(event);
  }
  armed_.event = event;
  armed_.until = until;
  if (Timeline::has_ended(until)) {
    WaitGraph::leave(task, {});
    leave_gate();
    return Waited::done;
  }
  armed_.since = stamp();
  control_.note_wait(event);
  return std::nullopt;
}

std::uint64_t TaskWaits::stamp() const noexcept {
  // Beside tasks in flight, whose ends are traced meanwhile, the record would not nest.
  return device_.options.in_flight == 0 ? trace::stamp_if_on() : 0;
}

void TaskWaits::leave_gate() noexcept {
  if (armed_.call == 0) return;
  WaitGraph::leave(*current_task(), {});
  Timeline::of(armed_.until)->uncall(armed_.call);
  trace_wait(armed_.event, device_.id, armed_.since);
  armed_ = {};
  control_.note_wait({});
  trace_.begin();
}

}  // namespace heddle::sched
