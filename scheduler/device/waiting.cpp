// Waits of tasks, gates and hosts.
#include "scheduler/device/waiting.hpp"

#include <fmt/format.h>

#include "scheduler/device/hooks.hpp"
#include "scheduler/device/wait_graph.hpp"
#include "scheduler/device/worker.hpp"
#include "scheduler/threads/spin.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {
namespace {

/// The thread or device of `track` waited for `event` from `begin` until now; 0: not traced then.
void trace_wait(const Event& event, std::uint64_t track, std::uint64_t begin) noexcept {
  if (begin == 0) return;
  const std::uint64_t timeline = event.timeline();
  try {
    trace::name(timeline, Timeline::of(event)->name_of(timeline));
  } catch (...) {  // it stays without a name
  }
  trace::record_pause(trace::Kind::wait, track, timeline, event.ticket(), begin);
}

/// This thread or its task waits for `event`, which lives longer, while this lives.
class TracedWait {
 public:
  explicit TracedWait(const Event& event) noexcept : event_(event), begin_(trace::stamp_if_on()) {}
  ~TracedWait() {
    if (begin_ != 0) [[unlikely]]
      trace_wait(event_, trace::track_here(), begin_);
  }
  TracedWait(const TracedWait&) = delete;
  TracedWait& operator=(const TracedWait&) = delete;

 private:
  const Event& event_;
  const std::uint64_t begin_;
};

}  // namespace

Waited wait_here(const Event& event, std::optional<Event::Clock::time_point> deadline,
                 std::chrono::nanoseconds spin, bool heeds_stop) noexcept {
  run_put_off();  // this may be a callback that holds up the others of its event
  if (event.done()) return Waited::done;
  if (TaskContext* const task = current_task(); task != nullptr)
    return task->device->wait_in_task(event, deadline, heeds_stop);
  if (Hooks* const simulation = hooks(); simulation != nullptr)
    return simulation->wait(event, deadline);
  const TracedWait traced(event);
  Timeline& timeline = *Timeline::of(event);
  if (const auto runner = timeline.runner(event)) {
    if (const auto done = runner->run_until(event, deadline))
      return *done ? Waited::done : Waited::late;
  }
  return timeline.wait(event.timeline(), event.ticket(), deadline, spin) ? Waited::done
                                                                         : Waited::late;
}

Status await_until(const Event& event, std::optional<Event::Clock::time_point> deadline) noexcept {
  if (event.done()) return event.status();
  const TaskContext* const task = current_task();
  if (waits_for_itself(event.timeline(), event.ticket())) {
    return Status(ErrorCode::failed_precondition, [&] {
      return fmt::format(
          "task '{}' (ticket {}) waits for {}, which can only end after it; "
          "submit a task that comes after that event instead",
          task->device->label(), task->ticket, event.to_string());
    });
  }
  const Timeline& timeline = *Timeline::of(event);
  if (timeline.in_forked_child()) return timeline.fork_refusal();
  return status_of(wait_here(event, deadline, tuning::spin_default), event);
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
      return current_task()->device->take_wait_refusal();
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
    return fmt::format("task '{}' was asked to stop while it waited for {}", task->device->label(),
                       event.to_string());
  });
}

/// Says in snapshots what the running task waits for.
class DeviceCore::Waiting {
 public:
  Waiting(DeviceCore& core, const Event& event) noexcept : core_(core), traced_(event) {
    core_.note_wait(event);
  }
  ~Waiting() { core_.note_wait({}); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  DeviceCore& core_;
  const TracedWait traced_;
};

/// Notes in the graph of waits what the running task waits for, unless that would close a cycle.
class DeviceCore::InGraph {
 public:
  InGraph(DeviceCore& core, const Event& event, WaitManner manner,
          const std::stop_token& stop) noexcept
      : task_(*current_task()), manner_(manner) {
    core.wait_refusal_ = WaitGraph::enter(task_, event, manner_, stop);
    refused_ = !core.wait_refusal_.ok();
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

/// What snapshots say it waits for; the default event: nothing.
void DeviceCore::note_wait(const Event& event) noexcept {
  const auto since = now();
  const std::lock_guard lock(control_);
  waiting_for_ = event;
  waiting_since_ = since;
}

namespace {

/// A runner's callback at a point in time, if there is one, while this lives.
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
  /// The runner keeps time, or needs not.
  [[nodiscard]] bool set() const noexcept { return !when_ || call_ != 0; }

 private:
  Runner& runner_;
  const std::optional<Event::Clock::time_point> when_;
  std::uint64_t call_ = 0;
};

}  // namespace

Waited DeviceCore::wait_in_task(const Event& event, Deadline deadline, bool heeds_stop) noexcept {
  // Where nobody holds this device any more, and somebody keeps the time.
  const bool bounded =
      drain_until_ && (!runner_ || kept_) && (!deadline || *drain_until_ < *deadline);
  const Deadline until = bounded ? drain_until_ : deadline;
  std::optional<Waited> waited;
  const WaitLimits limits{until, deadline.has_value(), heeds_stop};
  if (Fiber* const fiber = current_task()->fiber; fiber != nullptr)
    waited = suspend_until_ended(*fiber, event, limits);
  // The thread may be the one that is to end what it would sleep for.
  if (!waited && runner_ && !until) return refuse_wait(event);
  if (!waited) waited = sleep_until_ended(event, limits);
  return bounded && *waited == Waited::late ? Waited::stopped : *waited;
}

/// There is no memory for leaving this thread to others meanwhile.
Waited DeviceCore::refuse_wait(const Event& event) noexcept {
  wait_refusal_ = Status(ErrorCode::exhausted, [&] {
    return fmt::format("device '{}': no memory to wait for {}", timeline_->name(),
                       event.to_string());
  });
  return Waited::refused;
}

/// Leaves the running task's fiber until `event` is done; nullopt: it cannot.
std::optional<Waited> DeviceCore::suspend_until_ended(Fiber& fiber, const Event& event,
                                                      const WaitLimits& limits) noexcept {
  const Deadline& deadline = limits.deadline;
  try {
    before_allocation();
    const std::stop_token stop = limits.heeds_stop ? this_task::stop_token() : std::stop_token();
    const std::function<void()> wake = [mine = fiber.shared_from_this(), runner = runner_] {
      if (mine->unpark()) runner->resume(mine);
    };
    const Alarm alarm(*runner_, deadline, wake);
    if (!alarm.set()) return std::nullopt;
    const InGraph noted(*this, event, {.holds_up = false, .timed = limits.timed}, stop);
    if (noted.refused()) return Waited::refused;
    const Waiting waiting(*this, event);
    const std::stop_callback on_stop(stop, wake);
    const std::uint64_t call = Timeline::call(event, wake);
    Waited waited = Waited::done;
    while (!event.done()) {
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
  } catch (...) {  // no memory for it
    return std::nullopt;
  }
}

/// Holds the thread up until `event` is done.
Waited DeviceCore::sleep_until_ended(const Event& event, const WaitLimits& limits) noexcept {
  const Deadline& deadline = limits.deadline;
  const std::stop_token stop = limits.heeds_stop ? this_task::stop_token() : std::stop_token();
  const WaitManner manner{.holds_up = true, .timed = limits.timed};
  const auto ended = [&] { return event.done() || stop.stop_requested(); };
  const auto late = [&] { return deadline && now() >= *deadline; };
  if (Hooks* const simulation = hooks(); simulation != nullptr) {
    const InGraph noted(*this, event, manner, stop);
    if (noted.refused()) return Waited::refused;
    while (!ended() && !late() && simulation->pass()) {
    }
  } else if (!spin_until(ended, deadline ? spin_before(*deadline, spin()) : spin())) {
    const InGraph noted(*this, event, manner, stop);
    if (noted.refused()) return Waited::refused;
    try {
      const auto parker = std::make_shared<Parker>();
      const Waiting waiting(*this, event);
      const std::stop_callback on_stop(stop, [parker] { parker->unpark(); });
      const std::uint64_t call = Timeline::call(event, [parker] { parker->unpark(); });
      while (!ended() && parker->park(deadline)) {
      }
      Timeline::of(event)->uncall(call);
    } catch (...) {  // no memory to sleep with: poll
      while (!ended() && !late()) cpu_relax();
    }
  }
  if (event.done()) return Waited::done;
  return stop.stop_requested() ? Waited::stopped : Waited::late;
}

/// Sees to it that this device looks again once `event` is done; else how its wait ended at once.
std::optional<Waited> DeviceCore::arm(const Event& event) noexcept {
  if (armed_.call != 0 && armed_.event.timeline() == event.timeline() &&
      armed_.event.ticket() == event.ticket()) {
    return event.done() ? std::optional(Waited::done) : std::nullopt;
  }
  disarm();
  simulated_point();
  const TaskContext& task = *current_task();
  wait_refusal_ = WaitGraph::enter(task, event, {}, this_task::stop_token());
  if (!wait_refusal_.ok()) return Waited::refused;
  try {
    armed_.call = Timeline::call(event, [self = weak_from_this()] {
      if (const auto core = self.lock()) core->runner_->look_later(*core);
    });
  } catch (...) {  // no memory to be called back
    WaitGraph::leave(task, {});
    return refuse_wait(event);
  }
  armed_.event = event;
  if (event.done()) {
    WaitGraph::leave(task, {});
    disarm();
    return Waited::done;
  }
  armed_.since = trace::stamp_if_on();
  note_wait(event);
  return std::nullopt;
}

/// The gate that was armed is passed, or given up.
void DeviceCore::disarm() noexcept {
  if (armed_.call == 0) return;
  WaitGraph::leave(*current_task(), {});
  Timeline::of(armed_.event)->uncall(armed_.call);
  trace_wait(armed_.event, id_, armed_.since);
  armed_ = {};
  note_wait({});
  begin_trace();
}

}  // namespace heddle::sched
