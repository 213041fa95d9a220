// AnyDevices: the devices on which tasks of Scheduler::submit_any() run: each has one at a time, so
// that none comes after another, and is taken again once that has ended. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "heddle/any_task.hpp"

namespace heddle::sched {

/// Numbers of the devices that have no task.
struct AnyFree {
  std::mutex mutex;                  // guards what follows, and more of those that share it
  std::vector<std::size_t> numbers;  // has room for all
};

/// What tasks keep: not the devices, whose queues have them, nor what holds these, lest a task that
/// ends, rather than the scheduler's last handle, were the one to wait for the others.
struct AnyPlace {
  std::shared_ptr<AnyFree> free;
  std::size_t number = 0;
  std::size_t tasks = 1;  // that have not ended; guarded by its mutex
};

class AnyDevices {
 public:
  /// A device without a task; nothing: there is none.
  [[nodiscard]] std::optional<AnyGrant> take();
  /// One more, for the caller's task. Throws std::bad_alloc.
  [[nodiscard]] AnyGrant add(const TaskDevice& device);
  /// A device that has tasks: the caller's comes after these. There is one.
  [[nodiscard]] AnyGrant share();
  /// How many there are.
  [[nodiscard]] std::size_t size();

 private:
  [[nodiscard]] std::optional<AnyGrant> take_locked();

  struct Entry {
    TaskDevice device;
    std::shared_ptr<AnyPlace> place;
  };
  const std::shared_ptr<AnyFree> free_ = std::make_shared<AnyFree>();
  std::vector<Entry> entries_;  // guarded by its mutex, as what follows
  std::size_t next_shared_ = 0;
};

}  // namespace heddle::sched
