// Control: poison, epochs, cancels and stop requests of a device, and what it waits for: what
// controllers and the consumer agree on under one lock. Any thread, unless said otherwise.
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

  /// For fast paths: what submissions and tasks have to be looked at for.
  [[nodiscard]] const Health<>& health() const noexcept { return health_; }

  // Failures.

  /// ok, or the failure that poisoned the device.
  [[nodiscard]] Status failure() const noexcept;
  /// The same for a user who asks: it counts as seen from then on.
  [[nodiscard]] Status status() const noexcept;
  /// Why tasks are skipped now; ok when they are not.
  [[nodiscard]] Status skip_reason() const noexcept;
  /// `ticket` failed, and all later tasks of this epoch are skipped. The completer, before it
  /// completes that ticket.
  void poison(std::uint64_t ticket, const Status& why) noexcept;
  /// Nobody has seen the failure that poisoned this device, and soon nobody can: the log tells it.
  void tell_failure() noexcept;
  [[nodiscard]] std::uint64_t epoch() const noexcept;
  /// What recover() cleared last, if that was after `epoch`.
  [[nodiscard]] std::optional<Status> failure_before_recovery(std::uint64_t epoch) const noexcept;
  /// Waits until what is queued was skipped; then a new epoch begins.
  Status recover(const Lane<>& lane) noexcept;

  // Cancels.

  /// Cancels, and recoveries, which leave out what is queued. Any thread.
  [[nodiscard]] Disturbances<>& disturbances() noexcept { return disturbances_; }
  /// The tickets taken so far are not begun, and the running task is asked to stop.
  void cancel(const Lane<>& lane) noexcept;
  /// What comes before `ticket` has ended. The consumer, before it looks at that one.
  void settle(std::uint64_t ticket) noexcept;
  /// The token of task `ticket`, which runs or has just ended. Its consumer or completer.
  [[nodiscard]] std::stop_token stop_token(std::uint64_t ticket) noexcept;
  [[nodiscard]] bool asked_to_stop(std::uint64_t ticket) const noexcept;

  /// What snapshots say the device waits for; the default event: nothing. The consumer.
  void note_wait(const Event& event) noexcept;
  /// Epoch, status, waits.
  void show(Snapshot& snapshot) const;

 private:
  [[nodiscard]] std::stop_source& stop_source_of(std::uint64_t ticket) noexcept;

  Health<> health_;  // changed with mutex_ held
  Disturbances<> disturbances_;
  const Identity& device_;
  mutable std::mutex mutex_;  // guards what follows
  Status poison_;
  Status skip_reason_;
  Status last_poison_;               // what recover() cleared last
  std::uint64_t poison_ticket_ = 0;  // that of the task that failed
  std::uint64_t epoch_ = 0;
  Event waiting_for_;  // default: nothing
  Event::Clock::time_point waiting_since_;
  std::stop_source stop_source_;
  bool stop_source_used_ = false;  // a cancel asks by it, or has
};

}  // namespace heddle::sched
