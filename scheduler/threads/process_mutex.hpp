// ProcessMutex: guards data shared by a whole process; in forked children the data is whole and the
// mutex free.
#pragma once

#include <atomic>
#include <mutex>

namespace heddle::sched {

/// A lockable that is never destroyed. A forking thread holds every ProcessMutex during the fork,
/// which keeps other threads out: a child may use the guarded data. The locking order is free,
/// because the thread waits for a mutex only while it holds no other. A thread that holds a
/// ProcessMutex must not fork.
class ProcessMutex {
 public:
  constexpr ProcessMutex() noexcept = default;
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;

  void lock() noexcept {
    // relaxed: pairs with the store in be_listed(); the flag only saves this thread the list's
    // lock.
    if (!listed_.load(std::memory_order_relaxed)) [[unlikely]]
      be_listed();
    mutex_.lock();
  }
  void unlock() noexcept { mutex_.unlock(); }

 private:
  struct List;
  void be_listed() noexcept;

  std::mutex mutex_;
  std::atomic<bool> listed_{false};
  ProcessMutex* next_ = nullptr;  // guarded by the list's lock
};

}  // namespace heddle::sched
