// Failing, recovering, cancelling.
#include "scheduler/device/control.hpp"

#include <fmt/format.h>

#include <utility>

#include "scheduler/device/clocks.hpp"
#include "scheduler/device/hooks.hpp"
#include "scheduler/device/waiting.hpp"

namespace heddle::sched {

Status Control::failure() const noexcept {
  if (!health_.poisoned()) return {};
  const std::lock_guard lock(mutex_);
  return poison_;
}

Status Control::status() const noexcept {
  if (Status status = device_.forked(); !status.ok()) return status;
  Status poison;
  {
    const std::lock_guard lock(mutex_);
    poison = poison_;
  }
  if (!poison.ok()) device_.timeline->see(device_.id, poison);
  return poison;
}

Status Control::skip_reason() const noexcept {
  if (!health_.poisoned()) return {};
  const std::lock_guard lock(mutex_);
  return skip_reason_;
}

void Control::poison(std::uint64_t ticket, const Status& why) noexcept {
  const std::lock_guard lock(mutex_);
  poison_ = why;
  skip_reason_ = Status(
      ErrorCode::device_failed,
      [&] {
        return fmt::format("device '{}': skipped because of an earlier failure", device_.name());
      },
      why);
  poison_ticket_ = ticket;
  health_.poison();
}

void Control::tell_failure() noexcept {
  std::uint64_t ticket = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!poison_.ok()) ticket = poison_ticket_;
  }
  if (ticket != 0) device_.timeline->tell_unseen(ticket);
}

std::uint64_t Control::epoch() const noexcept {
  const std::lock_guard lock(mutex_);
  return epoch_;
}

std::optional<Status> Control::failure_before_recovery(std::uint64_t epoch) const noexcept {
  const std::lock_guard lock(mutex_);
  return epoch_ != epoch ? std::optional(last_poison_) : std::nullopt;
}

Status Control::recover(const Lane<>& lane) noexcept {
  if (Status status = device_.forked(); !status.ok()) return status;
  if (device_.inside_own_task()) return device_.own_task_refusal("recover");
  std::uint64_t epoch = 0, failed = 0;
  {
    const std::lock_guard lock(mutex_);
    if (!health_.poisoned()) return {};
    epoch = epoch_;
    failed = poison_ticket_;
  }
  const Disturbances<>::Lasting lasting(disturbances_);
  simulated_point();
  // The consumer skips the queued tasks at once, because the device is poisoned.
  const Event ended = device_.timeline->event(lane.tickets());
  if (const Waited waited = wait_here(ended, {}, device_.spin()); waited != Waited::done)
    return status_of(waited, ended);
  if (Clocks::on()) Clocks::saw(ended);
  simulated_point();
  {
    const std::lock_guard lock(mutex_);
    // Another recover() may have cleared the failure, and a task of the new epoch may have failed
    // since.
    if (epoch_ != epoch || !health_.poisoned()) return {};
    last_poison_ = std::exchange(poison_, {});
    skip_reason_ = {};
    ++epoch_;
    health_.heal();
  }
  device_.timeline->tell_unseen(failed);
  return {};
}

void Control::cancel(const Lane<>& lane) noexcept {
  std::stop_source running(std::nostopstate);
  const Disturbances<>::Lasting lasting(disturbances_);
  simulated_point();
  {
    const std::lock_guard lock(mutex_);
    running = stop_source_;
    stop_source_used_ = true;
    health_.cancel(lane.tickets());
    device_.timeline->attract();
  }
  simulated_point();
  running.request_stop();
}

void Control::settle(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  health_.settle(ticket - 1);
}

std::stop_token Control::stop_token(std::uint64_t ticket) noexcept {
  const std::lock_guard lock(mutex_);
  return stop_source_of(ticket).get_token();
}

bool Control::asked_to_stop(std::uint64_t ticket) const noexcept {
  const std::lock_guard lock(mutex_);
  return health_.cancelled(ticket);
}

/// Called with mutex_ held. A stop request concerns the tasks before it: later tasks get an unused
/// source, even if a cancel is only about to begin.
std::stop_source& Control::stop_source_of(std::uint64_t ticket) noexcept {
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

void Control::note_wait(const Event& event) noexcept {
  const auto since = now();
  const std::lock_guard lock(mutex_);
  waiting_for_ = event;
  waiting_since_ = since;
}

void Control::show(Snapshot& snapshot) const {
  Event waited;
  Event::Clock::time_point since;
  {
    const std::lock_guard lock(mutex_);
    waited = waiting_for_;
    since = waiting_since_;
    snapshot.recoveries = epoch_;
    snapshot.status = poison_;
  }
  const Timeline* const timeline = Timeline::of(waited);
  if (timeline == nullptr) return;
  snapshot.waiting_for = waited.to_string();
  snapshot.signaller = timeline->signaller_of(waited.device_id());
  snapshot.waiting_time = now() - since;
}

}  // namespace heddle::sched
