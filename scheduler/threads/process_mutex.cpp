// See process_mutex.hpp.
#include "scheduler/threads/process_mutex.hpp"

#include <pthread.h>

namespace heddle::sched {

/// Every mutex ever locked, the latest first.
struct ProcessMutex::List {
  /// A thread never waits for a listed mutex while it holds the list's lock.
  static void lock_all() noexcept {
    ProcessMutex* busy = nullptr;
    while (true) {
      mutex.lock();
      busy = try_to_lock_all();
      if (busy == nullptr) return;
      mutex.unlock();
      busy->mutex_.lock();  // waits until that mutex is free, then tries again
      busy->mutex_.unlock();
    }
  }
  static void unlock_all() noexcept {
    unlock_until(nullptr);
    mutex.unlock();
  }

  static constinit std::mutex mutex;  // guards the members below
  static constinit ProcessMutex* first;

 private:
  /// Locks all and returns null; or locks none and returns a mutex that another thread holds.
  [[nodiscard]] static ProcessMutex* try_to_lock_all() noexcept {
    for (ProcessMutex* at = first; at != nullptr; at = at->next_) {
      if (at->mutex_.try_lock()) continue;
      unlock_until(at);
      return at;
    }
    return nullptr;
  }
  static void unlock_until(const ProcessMutex* end) noexcept {
    for (ProcessMutex* at = first; at != end; at = at->next_) at->mutex_.unlock();
  }
};
constinit std::mutex ProcessMutex::List::mutex;
constinit ProcessMutex* ProcessMutex::List::first = nullptr;

void ProcessMutex::be_listed() noexcept {
  // Not a static variable: a child would wait for ever for the thread that was initializing it.
  static constinit pthread_once_t once = PTHREAD_ONCE_INIT;
  pthread_once(&once,
               [] { pthread_atfork(&List::lock_all, &List::unlock_all, &List::unlock_all); });
  const std::lock_guard lock(List::mutex);
  // relaxed: pairs with the store below, under the same lock.
  if (listed_.load(std::memory_order_relaxed)) return;
  next_ = List::first;
  List::first = this;
  // relaxed: pairs with the load in lock(): see there.
  listed_.store(true, std::memory_order_relaxed);
}

}  // namespace heddle::sched
