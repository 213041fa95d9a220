// ObjectMutex: guards an object that forked children inherit, and makes none of them wait.
#pragma once

#include <cstdint>
#include <mutex>

#include "scheduler/threads/fork.hpp"

namespace heddle::sched {

/// Any thread.
class ObjectMutex {
 public:
  /// Not owned: this is a forked child, and a thread that it lacks was inside when it was forked,
  /// so that what is guarded may be half written. Then the caller refuses.
  [[nodiscard]] std::unique_lock<std::mutex> lock_or_fork() {
    if (made_ != fork_generation()) return {mutex_, std::try_to_lock};
    return std::unique_lock(mutex_);
  }

 private:
  std::mutex mutex_;
  const std::uint32_t made_ = fork_generation();
};

}  // namespace heddle::sched
