// BiasedMutex: a lock that costs the one thread that takes it again and again two plain stores,
// until another needs it; from then on it is a mutex.
#pragma once

#include <cstdint>
#include <mutex>

#include "scheduler/protocol/bias.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::sched {

/// A lockable. Whoever holds it waits for nothing that needs it. In a forked child it locks
/// nothing; only there may it be torn.
class BiasedMutex {
 public:
  void lock() noexcept;
  /// Locks it if it is the calling thread's.
  [[nodiscard]] bool try_lock_alone() noexcept { return bias_.enter(known_thread_number()); }
  void unlock() noexcept {
    if (!by_mutex_) return bias_.leave();
    by_mutex_ = false;
    mutex_.unlock();
  }
  /// While it is locked: the calling thread will lock it again and again. The first that says so
  /// has it.
  void claim() noexcept;
  /// This is a forked child, and a thread that it lacks was inside when it was forked, so that what
  /// is guarded may be half written.
  [[nodiscard]] bool is_torn() const noexcept {
    return is_inherited() && (torn_ || by_mutex_ || bias_.is_inside());
  }
  /// It was made before this process was forked.
  [[nodiscard]] bool is_inherited() const noexcept { return fork_generation_ != fork_generation(); }

 private:
  Bias<> bias_;
  std::mutex mutex_;
  bool by_mutex_ = false;  // by whoever has locked it
  bool torn_ = false;      // as a child found it that has locked it since
  const std::uint32_t fork_generation_ = fork_generation();
};

}  // namespace heddle::sched
