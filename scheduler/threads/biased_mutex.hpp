// BiasedMutex: a lock that costs its first thread two plain stores per use until another thread
// needs the lock; from then on it is a mutex.
#pragma once

#include <cstdint>
#include <mutex>

#include "scheduler/protocol/bias.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::sched {

/// A lockable. A thread must not wait, while holding the lock, for a thread that needs it. In a
/// forked child the lock has no effect, and only there it may be torn.
class BiasedMutex {
 public:
  void lock() noexcept;
  /// Locks if the calling thread owns the bias.
  [[nodiscard]] bool try_lock_alone() noexcept { return bias_.enter(known_thread_number()); }
  void unlock() noexcept {
    if (!by_mutex_) return bias_.leave();
    by_mutex_ = false;
    mutex_.unlock();
  }
  /// Called with the lock held: the calling thread will lock it often. The first caller gets the
  /// bias.
  void claim() noexcept;
  /// True in a forked child if another thread was inside the lock at the fork; the guarded data may
  /// then be half written.
  [[nodiscard]] bool is_torn() const noexcept {
    return is_inherited() && (torn_ || by_mutex_ || bias_.is_inside());
  }
  /// True if the lock was made before the process was forked.
  [[nodiscard]] bool is_inherited() const noexcept { return fork_generation_ != fork_generation(); }

 private:
  Bias<> bias_;
  std::mutex mutex_;
  bool by_mutex_ = false;  // written by the current holder
  bool torn_ = false;      // a child found the lock torn, and has locked it since
  const std::uint32_t fork_generation_ = fork_generation();
};

}  // namespace heddle::sched
