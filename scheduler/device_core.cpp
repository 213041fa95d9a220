// The producers' and controllers' side of a device: submitting, waiting, recovering, shutting down.
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>

#include <algorithm>

#include "heddle/observe.hpp"
#include "scheduler/fork.hpp"
#include "scheduler/task_context.hpp"
#include "scheduler/worker.hpp"

namespace heddle::sched {

/// Which devices' running tasks wait for which full queues. A task that would close a cycle is
/// refused instead (S4). Slow path only: one mutex for the process.
struct BlockedOn {
  static std::mutex& mutex() noexcept {
    static std::mutex m;
    return m;
  }

  /// Notes that the innermost task waits for `target`, and with it those beneath it on this thread,
  /// down to the first that can be suspended. false: `target` waits, through others, for one of
  /// them.
  static bool enter(TaskContext* innermost, DeviceCore* target) noexcept {
    const std::lock_guard lock(mutex());
    for (const DeviceCore* at = target; at != nullptr; at = at->blocked_on_) {
      for (const TaskContext* task = innermost; task != nullptr; task = beneath(task)) {
        if (at == task->device) return false;
      }
    }
    note(innermost, target);
    return true;
  }
  static void leave(TaskContext* innermost) noexcept {
    const std::lock_guard lock(mutex());
    note(innermost, nullptr);
  }

 private:
  /// Also held up by `task`'s wait.
  template <class Task>
  static Task* beneath(Task* task) noexcept {
    return task->fiber != nullptr ? nullptr : task->outer;
  }
  static void note(TaskContext* innermost, DeviceCore* target) noexcept {
    for (TaskContext* task = innermost; task != nullptr; task = beneath(task)) {
      task->device->blocked_on_ = target;
    }
  }
};

namespace {

/// A number for the calling thread, never reused; not 0. Not inlined: see current_task().
[[gnu::noinline]] std::uint64_t new_thread_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  // relaxed: pairs with no other access; numbers only have to differ.
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}
[[gnu::noinline]] std::uint64_t thread_number() noexcept {
  // initial-exec: a few bytes, for which no call is worth it.
  [[gnu::tls_model("initial-exec")]] thread_local constinit std::uint64_t mine = 0;
  if (mine == 0) [[unlikely]]
    mine = new_thread_number();
  return mine;
}

}  // namespace

DeviceCore::DeviceCore(DeviceOptions options, OwnedRunner runner)
    : options_(std::move(options)),
      timeline_(Timeline::open(options_.name)),
      id_(timeline_->id()),
      fork_generation_(fork_generation()),
      runner_(std::move(runner.runner)),
      runner_owner_(std::move(runner.owner)),
      lane_(options_.capacity),
      health_(options_.single_producer) {
  timeline_->set_runner(runner_);
}

std::chrono::nanoseconds DeviceCore::spin() const noexcept {
  return options_.spin.value_or(tuning::spin_default);
}

Status DeviceCore::forked() const noexcept {
  return timeline_->in_forked_child() ? timeline_->fork_refusal() : Status();
}

bool DeviceCore::inside_own_task() const noexcept {
  for (const TaskContext* at = current_task(); at != nullptr; at = at->outer) {
    if (at->device == this) return true;
  }
  return false;
}

Status DeviceCore::own_task_refusal(const char* what) const {
  return Status(ErrorCode::failed_precondition,
                fmt::format("device '{}': {} inside its own task '{}' could not end before the "
                            "task does; do it from another "
                            "thread or device",
                            timeline_->name(), what, current_task()->label));
}

/// Why nothing may be submitted now; ok when it may.
Status DeviceCore::refusal() noexcept {
  if (Status status = forked(); !status.ok()) return status;
  if (health_.poisoned()) return status();
  if (lane_.closed()) {
    return Status(ErrorCode::unavailable,
                  fmt::format("device '{}' is shut down and takes no new tasks; open another",
                              timeline_->name()));
  }
  return {};
}

Status DeviceCore::check_producer() noexcept {
  if (lane_.belongs_to(thread_number())) return {};
  return Status(ErrorCode::failed_precondition,
                fmt::format("device '{}' was opened with single_producer, and another thread "
                            "submits to it already; submit "
                            "from that thread, or open it without",
                            timeline_->name()));
}

Event DeviceCore::submit(const char* label, const TaskOps& ops, void* callable,
                         const SubmitOptions* options) noexcept {
  if (options == nullptr && health_.plain() && fork_generation() == fork_generation_) [[likely]] {
    if (const auto ticket = reserve(thread_number())) [[likely]] {
      lane_.publish(*ticket, ops, callable, label);
      set_going();
      return Event(timeline_.get(), id_, *ticket);
    }
  }
  return submit_slowly(label, ops, callable, options);
}

Event DeviceCore::submit_slowly(const char* label, const TaskOps& ops, void* callable,
                                const SubmitOptions* options) noexcept {
  static const SubmitOptions* const defaults = new SubmitOptions;  // also needed during exit
  TaskNote note{label};
  return submit_carefully(note, ops, callable, options == nullptr ? *defaults : *options);
}

Event DeviceCore::submit_carefully(TaskNote& note, const TaskOps& ops, void* callable,
                                   const SubmitOptions& options) noexcept {
  const auto refuse = [&](Status why) {
    if (log_level() >= LogLevel::debug)
      log(LogLevel::debug, fmt::format("task '{}' refused: {}", note.label, why.to_string()));
    return Timeline::refused(std::move(why));
  };
  note.contain = options.contain;
  for (const Event& event : options.after) {
    if (event.done() && event.status().ok()) continue;
    if (waits_for_itself(id_, event.ticket()) && event.timeline() == id_ &&
        event.ticket() > lane_.tickets()) {
      return refuse(own_task_refusal("waiting for a later ticket"));
    }
    try {
      if (!note.after) note.after = std::make_unique<std::vector<Event>>();
      note.after->push_back(event);
    } catch (...) {
      return refuse(
          Status(ErrorCode::exhausted, "no memory for the events that a task comes after"));
    }
  }
  while (true) {
    if (Status status = refusal(); !status.ok()) return refuse(std::move(status));
    if (options_.single_producer) {
      if (Status status = check_producer(); !status.ok()) return refuse(std::move(status));
    }
    if (const auto ticket = reserve(thread_number())) {
      lane_.publish(*ticket, ops, callable, note);
      set_going();
      return timeline_->event(*ticket);
    }
    if (Status status = make_room(options); !status.ok()) return refuse(std::move(status));
  }
}

/// The queue is full: does what the policy says. ok: try again.
Status DeviceCore::make_room(const SubmitOptions& options) noexcept {
  if (lane_.closed()) return {};  // not full: the next try says so
  const FullPolicy policy = options.full.value_or(options_.full);
  const auto full = [&](const char* more) {
    return Status(ErrorCode::exhausted, fmt::format("device '{}': its queue of {} tasks is full{}",
                                                    timeline_->name(), lane_.capacity(), more));
  };
  if (policy == FullPolicy::fail) return full("");
  if (inside_own_task()) return full(", and the submitting task must end before a slot frees");
  const std::uint64_t tickets = lane_.tickets();
  Deadline deadline;
  if (policy == FullPolicy::deadline) deadline = options.deadline;
  TaskContext* const task = current_task();
  if (task == nullptr) return wait_for_slot(tickets, deadline);
  if (!BlockedOn::enter(task, this)) {
    return full(
        ", and its running task waits, in a cycle of full queues, for the task that submits");
  }
  Status status = wait_for_slot(tickets, deadline);
  BlockedOn::leave(task);
  return status;
}

Status DeviceCore::wait_for_slot(std::uint64_t tickets, Deadline deadline) noexcept {
  if (tickets < lane_.capacity()) return {};
  const Event slot = timeline_->event(tickets - lane_.capacity() + 1);
  switch (wait_here(slot, deadline, spin())) {
    case Waited::done:
      return {};
    case Waited::stopped:
      return status_of(Waited::stopped, slot);
    case Waited::late:
      break;
  }
  return Status(ErrorCode::deadline,
                fmt::format("device '{}': its queue of {} tasks stayed full until the deadline",
                            timeline_->name(), lane_.capacity()));
}

Event DeviceCore::record() noexcept {
  const std::uint64_t last = lane_.tickets();
  return last == 0 ? Event() : timeline_->event(last);
}

Event DeviceCore::wait(const Event& event) noexcept {
  const bool own = event.timeline() == id_;
  if (own && event.ticket() > lane_.tickets())
    return Timeline::refused(own_task_refusal("waiting for a later ticket"));
  if (own || (event.done() && event.status().ok())) return event;
  static constexpr TaskOps nothing{nullptr, [](void* /*callable*/) { return Status(); }, nullptr};
  SubmitOptions options;
  try {
    options.after.push_back(event);
  } catch (...) {
    return Timeline::refused(Status(ErrorCode::exhausted, "no memory to wait for an event"));
  }
  TaskNote note{"wait"};
  note.is_wait = true;
  alignas(16) std::byte none[task_bytes_max] = {};
  return submit_carefully(note, nothing, none, options);
}

Status DeviceCore::await(Deadline deadline) noexcept {
  if (inside_own_task()) return own_task_refusal("await");
  if (Status status = forked(); !status.ok()) return status;
  const std::uint64_t last = lane_.tickets();
  if (timeline_->completed() < last) {
    std::uint64_t epoch = 0;
    {
      const std::lock_guard lock(control_);
      epoch = epoch_;
    }
    const Event ended = timeline_->event(last);
    const Waited waited = wait_here(ended, deadline, spin());
    if (waited == Waited::stopped) return status_of(waited, ended);
    if (waited == Waited::late) {
      return Status(ErrorCode::deadline,
                    fmt::format("device '{}': {} tasks had not ended at the deadline",
                                timeline_->name(), last - std::min(last, timeline_->completed())));
    }
    const std::lock_guard lock(control_);
    // Somebody may have recovered before this thread woke: what it waited for failed all the same.
    if (epoch_ != epoch) return last_poison_;
  }
  return status();
}

bool DeviceCore::is_idle() const noexcept { return drained(); }

bool DeviceCore::drained() const noexcept {
  const std::uint64_t completed = timeline_->completed();
  return lane_.tickets() == completed;
}

Status DeviceCore::status() const noexcept {
  if (Status status = forked(); !status.ok()) return status;
  const std::lock_guard lock(control_);
  poison_observed_ = true;
  return poison_;
}

Status DeviceCore::recover() noexcept {
  if (Status status = forked(); !status.ok()) return status;
  if (inside_own_task()) return own_task_refusal("recover");
  std::uint64_t epoch = 0;
  {
    const std::lock_guard lock(control_);
    if (!health_.poisoned()) return {};
    epoch = epoch_;
  }
  // What is queued is skipped by the consumer, at once since the device is poisoned.
  const Event ended = timeline_->event(lane_.tickets());
  if (wait_here(ended, {}, spin()) == Waited::stopped) return status_of(Waited::stopped, ended);
  const std::lock_guard lock(control_);
  // Another recover() may have done it, and a task of the new epoch may have failed since.
  if (epoch_ != epoch || !health_.poisoned()) return {};
  last_poison_ = std::exchange(poison_, {});
  skip_reason_ = {};
  poison_observed_ = true;
  ++epoch_;
  health_.heal();
  return {};
}

void DeviceCore::cancel_pending() noexcept {
  if (timeline_->in_forked_child()) return;
  std::stop_source running;
  {
    const std::lock_guard lock(control_);
    running = stop_source_;
    health_.cancel(lane_.tickets());
  }
  running.request_stop();
  settle_put_off();  // a suspended task may go on here
  if (runner_) look();
}

std::stop_token DeviceCore::stop_token() noexcept {
  const std::lock_guard lock(control_);
  return stop_source_.get_token();
}

Status DeviceCore::shutdown(std::chrono::nanoseconds timeout) noexcept {
  if (Status status = forked(); !status.ok()) return status;
  lane_.close();
  if (inside_own_task()) return own_task_refusal("shutdown");
  const auto deadline = deadline_after(timeout);
  const auto ended = [this](Clock::time_point until) {
    const Event last = timeline_->event(lane_.tickets());
    return wait_here(last, until, spin(), false) == Waited::done;
  };
  bool all = ended(deadline);
  if (!all) {
    cancel_pending();
    all = ended(Clock::now() + tuning::stop_grace);
  }
  stop_worker(all);
  if (all) return {};
  const char* const label = running_label_.load(std::memory_order_relaxed);  // relaxed: for people
  return Status(ErrorCode::deadline,
                fmt::format("device '{}': task '{}' did not end by the deadline, nor when asked to "
                            "stop; it is left to end by itself",
                            timeline_->name(), label != nullptr ? label : "?"));
}

void DeviceCore::stop_worker(bool join) noexcept {
  // release: pairs with the acquire in work(); the barriers see to it that one side sees the other.
  stop_.store(true, std::memory_order_release);
  if (doorbell_.ring()) wake_worker();
  const std::lock_guard lock(join_);
  if (!thread_.joinable()) return;
  if (join) {
    thread_.join();
  } else {
    thread_.detach();  // it holds this object
  }
}

/// What is queued ends without anybody holding this device.
void DeviceCore::abandon_inside() noexcept {
  drain_until_ = deadline_after(options_.drain_max);
  if (!runner_) return stop_worker(false);
  try {
    const auto look_again = [self = weak_from_this()] {
      if (const auto core = self.lock()) core->look();
    };
    if (runner_->call_at(*drain_until_, look_again) != 0) {
      kept_ = shared_from_this();
      return;
    }
  } catch (...) {  // no memory for an alarm: as without one
  }
  drain_until_ = Clock::now();
}

std::shared_ptr<void> DeviceCore::abandon() noexcept {
  // The worker does not exist in a forked child, and its locks may be held for ever.
  if (timeline_->in_forked_child()) return nullptr;
  {
    const std::lock_guard lock(control_);
    if (!poison_observed_ && !timeline_->observed())
      log(LogLevel::error, "nobody asked for this failure: " + poison_.to_string());
    poison_observed_ = true;
  }
  if (inside_own_task()) {
    lane_.close();
    abandon_inside();
    return nullptr;
  }
  if (Status status = shutdown(options_.drain_max);
      !status.ok() && status.code() != ErrorCode::unavailable) {
    log(LogLevel::warn, status.to_string());
  }
  return drained() ? std::move(runner_owner_) : nullptr;
}

}  // namespace heddle::sched
