// Identity: what a device is from its opening to its end, for its parts. Constant; any thread.
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
  const bool simulated;                    ///< always careful, never plain
  const std::shared_ptr<Runner> runner;    ///< null: a thread of its own
  const std::shared_ptr<Helpers> helpers;  ///< with parts of tasks

  /// Whether tasks run where the host says, and parts of them with no other thread.
  [[nodiscard]] bool host_runs() const noexcept {
    return simulated || options.mode == Mode::manual;
  }

  [[nodiscard]] const std::string& name() const noexcept { return timeline->name(); }
  [[nodiscard]] std::chrono::nanoseconds spin() const noexcept;
  /// Not ok in a forked child: why nothing can be done there.
  [[nodiscard]] Status forked() const noexcept;
  /// Whether this thread runs one of the device's tasks.
  [[nodiscard]] bool inside_own_task() const noexcept;
  /// Why `what` is no use there.
  [[nodiscard]] Status own_task_refusal(const char* what) const;
};

}  // namespace heddle::sched
