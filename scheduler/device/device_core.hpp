// DeviceCore: a device behind its handles: its parts, and operations on several parts. Producers
// submit from any thread; a single consumer at a time (the device's worker thread, or a thread
// found by its runner) ends tasks.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <stop_token>

#include "heddle/scheduler.hpp"
#include "scheduler/device/admission.hpp"
#include "scheduler/device/consumer.hpp"
#include "scheduler/device/control.hpp"
#include "scheduler/device/drain.hpp"
#include "scheduler/device/identity.hpp"
#include "scheduler/device/running_parts.hpp"
#include "scheduler/device/summons.hpp"
#include "scheduler/observe/trace.hpp"

namespace heddle::sched {

/// The state shared by the users' handles.
struct TaskDevice::Handle {
  std::shared_ptr<DeviceCore> core;
  explicit Handle(std::shared_ptr<DeviceCore> device) noexcept;
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

class DeviceCore : public std::enable_shared_from_this<DeviceCore> {
 public:
  using Clock = Event::Clock;
  using Deadline = Runner::Deadline;

  DeviceCore(DeviceOptions options, const SchedulerProfile& profile, OwnedRunner runner,
             std::shared_ptr<Helpers> helpers);

  /// Makes the handle that users hold; starts a worker thread if there is no `runner`. Throws
  /// Error(unavailable) when no thread can be started.
  [[nodiscard]] static TaskDevice open(DeviceOptions options, const SchedulerProfile& profile,
                                       OwnedRunner runner, std::shared_ptr<Helpers> helpers,
                                       std::shared_ptr<DeviceCore>* core);
  /// The core of `device`, whose handle must not be empty.
  [[nodiscard]] static std::shared_ptr<DeviceCore> of(const TaskDevice& device) noexcept;
  /// of() without a new owner: `device` alone keeps the core alive; the handle must not be empty.
  [[nodiscard]] static DeviceCore& in(const TaskDevice& device) noexcept { return *device.core_; }

  /// See TaskDevice: submission on the fast path.
  [[nodiscard]] TaskDevice::Slot reserve() noexcept {
    // A single comparison checks two conditions: the device is on its fast path, and no observer
    // watches submits. In a forked child no thread has the owner's number.
    if (control_.health().plain() > trace::submits_on()) [[likely]] {
      if (const std::uint64_t ticket = admission_.reserve_alone()) [[likely]]
        return {admission_.lane().begin(ticket).callable, ticket};
    }
    return {nullptr, 0};
  }
  /// The same after a recount of the free slots.
  [[nodiscard]] TaskDevice::Slot reserve(Recount recount) noexcept {
    if (control_.health().plain() > trace::submits_on()) {
      if (const std::uint64_t ticket = admission_.reserve_alone(recount))
        return {admission_.lane().begin(ticket).callable, ticket};
    }
    return {nullptr, 0};
  }
  void publish(TaskDevice::Slot slot, const char* label, const TaskOps& ops) noexcept {
    Lane<>::publish(Lane<>::slot_of(slot.callable), slot.ticket, label, ops);
    if (!summons_.quiet()) [[unlikely]]
      call_closely();
  }
  void publish(TaskDevice::Slot slot, const char* label, const TaskOps& ops,
               TaskNote& note) noexcept {
    admission_.lane().publish(slot.ticket, label, ops, note);
    summons_.call();
  }
  [[nodiscard]] Admission& admission() noexcept { return admission_; }

  Event record() noexcept { return admission_.record(); }
  Status await(Deadline deadline) noexcept;
  [[nodiscard]] bool is_idle() const noexcept { return admission_.drained(); }
  /// is_idle() for a user who asks: earlier submissions count as seen.
  bool see_if_idle() const noexcept;
  [[nodiscard]] const Control& control() const noexcept { return control_; }
  [[nodiscard]] Disturbances<>& disturbances() noexcept { return control_.disturbances(); }
  [[nodiscard]] Status status() const noexcept { return control_.status(); }
  Status recover() noexcept { return control_.recover(admission_.lane()); }
  void cancel_pending() noexcept;
  Status shutdown(std::chrono::nanoseconds timeout) noexcept;
  /// Shuts the devices down together, within one deadline and one grace period; returns the first
  /// failure.
  static Status shutdown(std::span<DeviceCore* const> devices,
                         std::chrono::nanoseconds timeout) noexcept;
  /// See Drain.
  [[nodiscard]] std::shared_ptr<void> abandon() noexcept { return drain_.abandon(); }

  [[nodiscard]] const DeviceOptions& options() const noexcept { return device_.options; }
  [[nodiscard]] const Timeline& timeline() const noexcept { return *device_.timeline; }
  /// The label of the consumer's current or latest task.
  [[nodiscard]] const char* label() const noexcept { return consumer_.running().label(); }
  [[nodiscard]] Counters counters() const noexcept;
  [[nodiscard]] Snapshot snapshot() const;

  // For the running task.

  [[nodiscard]] const Identity& identity() const noexcept { return device_; }
  [[nodiscard]] RunningParts& parts() noexcept { return parts_; }
  [[nodiscard]] TaskWaits& waits() noexcept { return consumer_.waits(); }
  /// Null unless the device has tasks in flight.
  [[nodiscard]] LateEnds* late_ends() noexcept { return consumer_.late_ends(); }
  [[nodiscard]] std::stop_token stop_token(std::uint64_t ticket) noexcept {
    return control_.stop_token(ticket);
  }

  // For runners.

  /// The last ticket that the consumer has finished with.
  [[nodiscard]] std::uint64_t at() const noexcept { return consumer_.at(); }

  /// The consumer's inputs may have changed: the consumer looks again after this call. Any thread.
  void look() noexcept { summons_.look(); }
  /// look() for callbacks of events, which must not delay other waiters.
  void look_later() noexcept { device_.runner->look_later(*this); }
  /// See Consumer.
  [[nodiscard]] bool take_turn(Fiber* fiber, std::uint32_t tasks_max) noexcept {
    return consumer_.take_turn(fiber, tasks_max);
  }
  [[nodiscard]] bool take_short_turn() noexcept { return consumer_.take_short_turn(); }
  [[nodiscard]] Summons& summons() noexcept { return summons_; }

 private:
  // A separate function: the caller computes no address for the call.
  [[gnu::noinline]] void call_closely() noexcept { summons_.call_closely(); }

  // Each part has separate cache lines: writes of producers, the consumer and controllers do not
  // disturb the other parts.
  const Identity device_;
  Admission admission_;
  Summons summons_;
  Control control_;
  Consumer consumer_;
  Drain drain_;
  RunningParts parts_;
};

}  // namespace heddle::sched
