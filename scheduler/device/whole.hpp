// Whole: the operations on the whole device that parts of a device and waits of its tasks need;
// these do not include DeviceCore. device_core.cpp implements them. Any thread.
#pragma once

#include <chrono>
#include <memory>
#include <optional>

#include "heddle/scheduler.hpp"
#include "scheduler/device/waited.hpp"

namespace heddle::sched {

class Timeline;

struct Whole {
  [[nodiscard]] static std::shared_ptr<DeviceCore> keep(DeviceCore& device) noexcept;
  [[nodiscard]] static std::weak_ptr<DeviceCore> watch(DeviceCore& device) noexcept;
  [[nodiscard]] static const Timeline& timeline(const DeviceCore& device) noexcept;
  /// The label of the consumer's current or latest task.
  [[nodiscard]] static const char* label(const DeviceCore& device) noexcept;
  /// The consumer looks at the queue after the call. look_later(): from the callback of an event,
  /// which must not delay other waiters.
  static void look(DeviceCore& device) noexcept;
  static void look_later(DeviceCore& device) noexcept;
  static Status shut_down(DeviceCore& device, std::chrono::nanoseconds timeout) noexcept;
  /// In the device's running task: see TaskWaits.
  [[nodiscard]] static Waited wait_in_task(DeviceCore& device, const Event& event,
                                           std::optional<Event::Clock::time_point> deadline,
                                           bool heeds_stop) noexcept;
  [[nodiscard]] static Status take_refusal(DeviceCore& device) noexcept;
};

}  // namespace heddle::sched
