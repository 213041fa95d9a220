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
/// forked child the lock is another mutex, which no thread of the parent held, and only there it
/// may be torn; in a child of that child the lock has no effect.
class BiasedMutex {
 public:
  void lock() noexcept {
    if (!try_lock_alone()) lock_with_others();
  }
  /// Locks if the calling thread owns the bias.
  [[nodiscard]] bool try_lock_alone() noexcept { return bias_.enter(known_thread_number()); }
  void unlock() noexcept {
    const By by = by_;
    if (by == By::bias) return bias_.leave();
    by_ = By::bias;
    (by == By::mutex ? mutex_ : of_children_).unlock();
  }
  /// Called with the lock held: the calling thread will lock it often. The first caller gets the
  /// bias.
  void claim() noexcept {
    if (by_ == By::mutex) static_cast<void>(bias_.claim(thread_number()));
  }
  /// True in a forked child if another thread was inside the lock at the fork; the guarded data may
  /// then be half written.
  [[nodiscard]] bool is_torn() const noexcept {
    return is_inherited() && (torn_ || by_ == By::mutex || bias_.is_inside());
  }
  /// True if the lock was made before the process was forked.
  [[nodiscard]] bool is_inherited() const noexcept { return fork_generation_ != fork_generation(); }

 private:
  void lock_with_others() noexcept;
  void lock_in_child() noexcept;

  Bias<> bias_;
  std::mutex mutex_, of_children_;
  enum class By : std::uint8_t { bias, mutex, of_children } by_ = By::bias;  // the holder writes it
  bool torn_ = false;  // a child found the lock torn, and has locked it since
  const std::uint32_t fork_generation_ = fork_generation();
};

}  // namespace heddle::sched
