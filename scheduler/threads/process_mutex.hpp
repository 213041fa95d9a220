// ProcessMutex: guards what all of a process shares, and is whole and free in forked children.
#pragma once

#include <atomic>
#include <mutex>

namespace heddle::sched {

/// A lockable that is never destroyed. A thread that forks has locked all of them meanwhile, so
/// that no other is inside: a child may go on with what they guard. The order in which that is done
/// matters to nobody, as the thread waits for one of them only while it holds no other. A thread
/// that has locked one does not fork.
class ProcessMutex {
 public:
  constexpr ProcessMutex() noexcept = default;
  ProcessMutex(const ProcessMutex&) = delete;
  ProcessMutex& operator=(const ProcessMutex&) = delete;

  void lock() noexcept {
    // relaxed: pairs with the store in be_listed(); it only spares this thread the list's lock.
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
