// Whole: what parts of a device, and the waits of its tasks, ask of the whole device, which they do
// not know. device_core.cpp answers. Any thread.
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
  /// The label of the task that its consumer is at, or was last.
  [[nodiscard]] static const char* label(const DeviceCore& device) noexcept;
  /// The consumer looks at its queue after this; later: from the callback of an event, which holds
  /// up others.
  static void look(DeviceCore& device) noexcept;
  static void look_later(DeviceCore& device) noexcept;
  static Status shut_down(DeviceCore& device, std::chrono::nanoseconds timeout) noexcept;
  /// In its running task: see TaskWaits.
  [[nodiscard]] static Waited wait_in_task(DeviceCore& device, const Event& event,
                                           std::optional<Event::Clock::time_point> deadline,
                                           bool heeds_stop) noexcept;
  [[nodiscard]] static Status take_refusal(DeviceCore& device) noexcept;
};

}  // namespace heddle::sched
