// ObjectMutex: guards an object that forked children inherit, and never blocks those children.
#pragma once

#include <cstdint>
#include <mutex>

#include "scheduler/threads/fork.hpp"

namespace heddle::sched {

/// Any thread.
class ObjectMutex {
 public:
  /// Not owned: this is a forked child, and another thread was inside the lock at the fork; the
  /// guarded data may be half written. The caller then refuses the operation.
  [[nodiscard]] std::unique_lock<std::mutex> lock_or_fork() {
    if (made_ != fork_generation()) return {mutex_, std::try_to_lock};
    return std::unique_lock(mutex_);
  }

 private:
  std::mutex mutex_;
  const std::uint32_t made_ = fork_generation();
};

}  // namespace heddle::sched
