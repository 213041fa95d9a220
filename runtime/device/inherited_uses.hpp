// Counts of uses in a forked child.
#pragma once

#include "scheduler/protocol/split_count.hpp"
#include "scheduler/threads/biased_mutex.hpp"

namespace heddle::rt {

/// True in a forked child if a thread of the parent was ending a use at the fork. `lock` is as old
/// as the count. The child keeps such an object for ever: nobody knows whether it is in use.
[[nodiscard]] inline bool is_torn(const sched::BiasedMutex& lock,
                                  const sched::SplitCount<>& uses) noexcept {
  return lock.is_inherited() && uses.is_torn();
}

}  // namespace heddle::rt
