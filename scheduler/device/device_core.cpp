// The controllers' side of a device: awaiting, recovering, cancelling, shutting down.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/observe.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/worker.hpp"
#include "scheduler/observe/log.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/task_context.hpp"

namespace heddle::sched {

DeviceCore::DeviceCore(DeviceOptions options, OwnedRunner runner)
    : options_(std::move(options)),
      timeline_(Timeline::open(options_.name)),
      id_(timeline_->id()),
      fork_generation_(fork_generation()),
      simulated_(options_.mode == Mode::simulated),
      runner_(std::move(runner.runner)),
      runner_owner_(std::move(runner.owner)),
      lane_(*options_.capacity),
      doorbell_(runner_ != nullptr),
      health_(!simulated_ && !options_.record_sites, simulated_) {
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
  return Status(ErrorCode::failed_precondition, [&] {
    return fmt::format(
        "device '{}': {} inside its own task '{}' could not end before the "
        "task does; do it from another "
        "thread or device",
        timeline_->name(), what, current_task()->device->label());
  });
}

Event DeviceCore::record() noexcept {
  const std::uint64_t last = lane_.tickets();
  return last == 0 ? Event() : timeline_->event(last);
}

Status DeviceCore::await(Deadline deadline) noexcept {
  if (inside_own_task()) return own_task_refusal("await");
  if (Status status = forked(); !status.ok()) return status;
  std::uint64_t epoch = 0;  // before the look: a failure after it may be recovered from at once
  {
    const std::lock_guard lock(control_);
    epoch = epoch_;
  }
  const std::uint64_t last = lane_.tickets();
  if (timeline_->completed() < last) {
    const Event ended = timeline_->event(last);
    const Waited waited = wait_here(ended, deadline, spin());
    if (waited == Waited::stopped || waited == Waited::refused) return status_of(waited, ended);
    if (waited == Waited::late) {
      return Status(ErrorCode::deadline, [&] {
        return fmt::format("device '{}': {} tasks had not ended at the deadline", timeline_->name(),
                           last - std::min(last, timeline_->completed()));
      });
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
  Status poison;
  {
    const std::lock_guard lock(control_);
    poison = poison_;
  }
  if (!poison.ok()) timeline_->see(id_, poison);
  return poison;
}

/// Nobody has seen the failure that poisoned this device, and soon nobody can: the log tells it.
void DeviceCore::tell_poison() noexcept {
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(control_);
    if (!poison_.ok()) ticket = poison_ticket_;
  }
  if (ticket != 0) timeline_->tell_unseen(ticket);
}

Status DeviceCore::recover() noexcept {
  if (Status status = forked(); !status.ok()) return status;
  if (inside_own_task()) return own_task_refusal("recover");
  std::uint64_t epoch = 0, failed = 0;
  {
    const std::lock_guard lock(control_);
    if (!health_.poisoned()) return {};
    epoch = epoch_;
    failed = poison_ticket_;
  }
  // What is queued is skipped by the consumer, at once since the device is poisoned.
  const Event ended = timeline_->event(lane_.tickets());
  if (const Waited waited = wait_here(ended, {}, spin()); waited != Waited::done)
    return status_of(waited, ended);
  simulated_point();
  {
    const std::lock_guard lock(control_);
    // Another recover() may have done it, and a task of the new epoch may have failed since.
    if (epoch_ != epoch || !health_.poisoned()) return {};
    last_poison_ = std::exchange(poison_, {});
    skip_reason_ = {};
    ++epoch_;
    health_.heal();
  }
  timeline_->tell_unseen(failed);
  return {};
}

void DeviceCore::cancel_pending() noexcept {
  if (timeline_->in_forked_child()) return;
  std::stop_source running(std::nostopstate);
  {
    const std::lock_guard lock(control_);
    running = stop_source_;
    stop_source_used_ = true;
    health_.cancel(lane_.tickets());
    timeline_->attract();
  }
  simulated_point();
  running.request_stop();
  settle_put_off();  // a suspended task may go on here
  if (runner_) look();
}

std::stop_token DeviceCore::stop_token(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(control_);
  return stop_source_of(ticket).get_token();
}

/// With control_ held. A stop request is for the tasks before it: later ones have a source that
/// nobody has used, also when who cancels is only about to.
std::stop_source& DeviceCore::stop_source_of(std::uint64_t ticket) noexcept {
  if (stop_source_used_ && !health_.cancelled(ticket)) {
    try {
      stop_source_ = std::stop_source();
    } catch (...) {  // without memory the next tasks cannot be asked to stop
      stop_source_ = std::stop_source(std::nostopstate);
    }
    stop_source_used_ = false;
  }
  return stop_source_;
}

Status DeviceCore::shutdown(std::chrono::nanoseconds timeout) noexcept {
  DeviceCore* const self = this;
  return shutdown({&self, 1}, timeout);
}

Status DeviceCore::shutdown(std::span<DeviceCore* const> devices,
                            std::chrono::nanoseconds timeout) noexcept {
  Status first;
  const auto keep_first = [&first](Status status) {
    if (first.ok()) first = std::move(status);
  };
  for (DeviceCore* const device : devices) keep_first(device->close());
  const auto drain_until = [devices](Clock::time_point deadline) {
    bool all = true;
    for (DeviceCore* const device : devices) all = device->drain(deadline) && all;
    return all;
  };
  if (!drain_until(deadline_after(timeout))) {
    for (DeviceCore* const device : devices) {
      if (!device->drained() && device->may_shut_down()) device->cancel_pending();
    }
    drain_until(now() + tuning::stop_grace);
  }
  for (DeviceCore* const device : devices) keep_first(device->stop());
  return first;
}

bool DeviceCore::may_shut_down() const noexcept {
  return !timeline_->in_forked_child() && !inside_own_task();
}

/// Takes no more tasks. Why this thread cannot wait for those that it has; ok: it can.
Status DeviceCore::close() noexcept {
  if (Status status = forked(); !status.ok()) return status;
  lane_.close();
  if (inside_own_task()) return own_task_refusal("shutdown");
  simulated_point();
  return {};
}

/// Whether all that it was asked to do, which is no more, has ended by then, or is not for this
/// thread to wait for.
bool DeviceCore::drain(Clock::time_point deadline) noexcept {
  if (!may_shut_down()) return true;
  const Event last = timeline_->event(lane_.tickets());
  return wait_here(last, deadline, spin(), false) == Waited::done;
}

namespace {
/// What a shutdown leaves to end by itself, by the label of what ran.
std::string left_task(const char* label) {
  return *label == '\0' ? "what is queued" : fmt::format("task '{}'", label);
}
}  // namespace

/// The end of a shutdown: without those of its tasks that have not ended yet.
Status DeviceCore::stop() noexcept {
  if (!may_shut_down()) return {};
  const bool all = drained();
  // release: pairs with the exchange in tell_left_ended().
  if (!all) left_.store(label(), std::memory_order_release);
  stop_worker(all);
  tell_poison();
  if (all) return {};
  if (runner_) look();  // it may have ended meanwhile
  return Status(ErrorCode::deadline, [&] {
    return fmt::format(
        "device '{}': {} did not end by the deadline, nor when asked to "
        "stop; it is left to end by itself",
        timeline_->name(), left_task(label()));
  });
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

/// A shutdown may have given up waiting for what has ended now. The consumer.
void DeviceCore::tell_left_ended() noexcept {
  // relaxed: validated by the exchange.
  if (left_.load(std::memory_order_relaxed) == nullptr || !drained()) return;
  // acquire: pairs with the release in stop().
  const char* const label = left_.exchange(nullptr, std::memory_order_acquire);
  log_made(LogLevel::warn, [&] {
    return fmt::format(
        "device '{}': {}, which a shutdown left to end by itself, "
        "has ended",
        timeline_->name(), left_task(label));
  });
}

/// What is queued ends without anybody holding this device.
void DeviceCore::abandon_inside() noexcept {
  drain_until_ = deadline_after(options_.drain_max);
  if (!runner_) return stop_worker(false);
  try {
    const auto look_again = [self = weak_from_this()] {
      if (const auto core = self.lock()) core->look();
    };
    drain_call_ = runner_->call_at(*drain_until_, look_again);
    if (drain_call_ != 0) {
      kept_ = shared_from_this();
      return;
    }
  } catch (...) {  // no memory for an alarm: as without one
  }
  drain_until_ = now();
}

std::shared_ptr<void> DeviceCore::abandon() noexcept {
  // The worker does not exist in a forked child, and its locks may be held for ever.
  if (timeline_->in_forked_child()) return nullptr;
  if (inside_own_task()) {
    lane_.close();
    abandon_inside();  // what fails until the timeline closes is told there
    return nullptr;
  }
  // acquire: pairs with the release in stop(). Who was told that a task goes on waits no more.
  if (left_.load(std::memory_order_acquire) != nullptr) {
    timeline_->tell_unseen();
    return nullptr;
  }
  if (Status status = shutdown(options_.drain_max);
      !status.ok() && status.code() != ErrorCode::unavailable) {
    log_made(LogLevel::warn, [&] { return status.to_string(); });
  }
  timeline_->tell_unseen();
  return drained() ? std::move(runner_owner_) : nullptr;
}

}  // namespace heddle::sched
