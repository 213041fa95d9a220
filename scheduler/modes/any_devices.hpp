// AnyDevices: the devices that run tasks of Scheduler::submit_any(): each device has a single task
// at a time, which keeps the tasks unordered, and is free again once the task has ended. Any
// thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "heddle/any_task.hpp"

namespace heddle::sched {

/// Numbers of the free devices.
struct AnyFree {
  std::mutex mutex;  // guards the members below, and `tasks` of places that share it
  std::vector<std::size_t> numbers;  // has room for every device
};

/// The part that tasks keep alive: neither the devices, whose queues hold the tasks, nor their
/// owner; otherwise an ending task, rather than the scheduler's last handle, could be the last
/// owner and wait for other tasks.
struct AnyPlace {
  std::shared_ptr<AnyFree> free;
  std::size_t number = 0;
  std::size_t tasks = 1;  // tasks not yet ended; guarded by the mutex of `free`
};

class AnyDevices {
 public:
  /// A free device; nullopt: no device is free.
  [[nodiscard]] std::optional<AnyGrant> take();
  /// Adds a device for the caller's task. Throws std::bad_alloc.
  [[nodiscard]] AnyGrant add(const TaskDevice& device);
  /// A device that already has tasks, which the caller's task comes after. Requires at least one
  /// device.
  [[nodiscard]] AnyGrant share();
  /// The number of devices.
  [[nodiscard]] std::size_t size();

 private:
  [[nodiscard]] std::optional<AnyGrant> take_locked();

  struct Entry {
    TaskDevice device;
    std::shared_ptr<AnyPlace> place;
  };
  const std::shared_ptr<AnyFree> free_ = std::make_shared<AnyFree>();
  std::vector<Entry> entries_;  // with next_shared_, guarded by the mutex of free_
  std::size_t next_shared_ = 0;
};

}  // namespace heddle::sched
