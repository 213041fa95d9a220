// Ledger: one for each virtual device: the lock of what its buffers know of their uses, and of what
// its routines count. It costs the one thread that schedules two plain stores, until another needs
// it; from then on it is a mutex.
#pragma once

#include <cstdint>
#include <mutex>

#include "scheduler/protocol/bias.hpp"
#include "scheduler/threads/fork.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::rt {

/// A lockable. A thread that holds it waits for nothing, runs no code of users, and locks no other
/// ledger but in the order of their addresses. In a forked child it locks nothing.
class Ledger {
 public:
  void lock() noexcept;
  /// Locks it if it is the calling thread's.
  [[nodiscard]] bool try_lock_alone() noexcept { return bias_.enter(sched::known_thread_number()); }
  void unlock() noexcept {
    if (!by_mutex_) return bias_.leave();
    by_mutex_ = false;
    mutex_.unlock();
  }
  /// While it is locked: the calling thread will lock it again and again. The first that says so
  /// has it.
  void claim() noexcept;

 private:
  sched::Bias<> bias_;
  std::mutex mutex_;
  bool by_mutex_ = false;  // by whoever has locked it
  const std::uint32_t fork_generation_ = sched::fork_generation();
};

}  // namespace heddle::rt
