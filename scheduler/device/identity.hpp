// Identity: the constants of a device, for its parts, from opening to end. Any thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "heddle/scheduler.hpp"
#include "scheduler/device/runner.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/threads/fork.hpp"

namespace heddle::sched {

class Helpers;

struct Identity {
  Identity(DeviceCore& device, DeviceOptions how, const SchedulerProfile& where,
           std::shared_ptr<Runner> by, std::shared_ptr<Helpers> helped_by);

  DeviceCore& core;  ///< for runners, which know whole devices
  const DeviceOptions options;
  const SchedulerProfile profile;
  const OwnedTimeline timeline;
  const std::uint64_t id;  ///< the timeline's
  const std::uint32_t fork_generation;
  const bool simulated;                    ///< every task takes the slow path
  const std::shared_ptr<Runner> runner;    ///< null: the device has its own thread
  const std::shared_ptr<Helpers> helpers;  ///< with parts of tasks

  /// True if tasks run where the host says, and their parts run without other threads.
  [[nodiscard]] bool host_runs() const noexcept {
    return simulated || options.mode == Mode::manual;
  }

  [[nodiscard]] const std::string& name() const noexcept { return timeline->name(); }
  [[nodiscard]] std::chrono::nanoseconds spin() const noexcept;
  /// A failed status in a forked child: why the device cannot be used there.
  [[nodiscard]] Status forked() const noexcept;
  /// True if this thread runs a task of the device.
  [[nodiscard]] bool inside_own_task() const noexcept;
  /// Why the operation `what` is refused inside one of the device's own tasks.
  [[nodiscard]] Status own_task_refusal(const char* what) const;
};

}  // namespace heddle::sched
