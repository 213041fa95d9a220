// Control: poison, epochs, cancels and stop requests of a device, and the event that the device
// waits for: the state that controllers and the consumer share under one lock. Any thread, unless
// said otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>

#include "heddle/scheduler.hpp"
#include "scheduler/device/identity.hpp"
#include "scheduler/protocol/disturbances.hpp"
#include "scheduler/protocol/health.hpp"
#include "scheduler/protocol/lane.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

class alignas(tuning::line_bytes) Control {
 public:
  /// Throws std::bad_alloc.
  explicit Control(const Identity& device)
      : health_(!device.simulated && !device.options.record_sites,
                device.simulated || device.options.in_flight != 0),
        device_(device) {}

  /// For fast paths: the reasons why submissions and tasks need checks.
  [[nodiscard]] const Health<>& health() const noexcept { return health_; }

  // Failures.

  /// ok, or the failure that poisoned the device.
  [[nodiscard]] Status failure() const noexcept;
  /// failure() for a user who asks: the failure counts as seen afterwards.
  [[nodiscard]] Status status() const noexcept;
  /// Why tasks are skipped now; ok while tasks run.
  [[nodiscard]] Status skip_reason() const noexcept;
  /// `ticket` failed, and all later tasks of this epoch are skipped. Called by the completer before
  /// completing the ticket.
  void poison(std::uint64_t ticket, const Status& why) noexcept;
  /// Logs the failure of this device if no caller has seen the failure. Called when callers are
  /// about to lose access to the failure.
  void tell_failure() noexcept;
  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// The failure that recover() cleared last, if that recovery came after `epoch`.
  [[nodiscard]] std::optional<Status> failure_before_recovery(std::uint64_t epoch) const noexcept;
  /// Waits until the queued tasks were skipped; then a new epoch begins.
  Status recover(const Lane<>& lane) noexcept;

  // Cancels.

  /// The cancel epoch: counts cancels, and recoveries, which skip queued tasks. Any thread.
  [[nodiscard]] Disturbances<>& disturbances() noexcept { return disturbances_; }
  /// Tickets taken so far do not begin, and the running task receives a stop request.
  void cancel(const Lane<>& lane) noexcept;
  /// Notes that every ticket before `ticket` has ended. Called by the consumer before it looks at
  /// `ticket`.
  void settle(std::uint64_t ticket) noexcept;
  /// The stop token of task `ticket`, which runs or has just ended. Called by its consumer or
  /// completer.
  [[nodiscard]] std::stop_token stop_token(std::uint64_t ticket) noexcept;
  [[nodiscard]] bool asked_to_stop(std::uint64_t ticket) const noexcept;

  /// Sets the event for which the device waits, as shown by snapshots; the default event: none.
  /// Called by the consumer.
  void note_wait(const Event& event) noexcept;
  /// Shows epoch, status and waits.
  void show(Snapshot& snapshot) const;

 private:
  [[nodiscard]] std::stop_source& stop_source_of(std::uint64_t ticket) noexcept;

  Health<> health_;  // changed with mutex_ held
  Disturbances<> disturbances_;
  const Identity& device_;
  mutable std::mutex mutex_;  // guards the members below
  Status poison_;
  Status skip_reason_;
  Status last_poison_;               // the failure that recover() cleared last
  std::uint64_t poison_ticket_ = 0;  // the ticket of the failed task
  std::uint64_t epoch_ = 0;
  Event waiting_for_;  // default: none
  Event::Clock::time_point waiting_since_;
  std::stop_source stop_source_;
  bool stop_source_used_ = false;  // a cancel stops stop_source_, now or earlier
};

}  // namespace heddle::sched
