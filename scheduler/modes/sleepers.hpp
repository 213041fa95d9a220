// Sleepers: the threads of a pool that sleep, or are about to, and the choice of the thread to
// wake. A wake takes no lock: each thread has a place with a flag (protocol/ready_count.hpp).
#pragma once

#include <atomic>
#include <memory>
#include <mutex>

#include "scheduler/protocol/ready_count.hpp"
#include "scheduler/threads/parker.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

class Sleepers {
 public:
  struct alignas(tuning::line_bytes) Place {
    SleeperFlag<> flag;
    Parker parker;
    bool used = true;  // guarded by mutex_
    Place* next = nullptr;
  };

  /// A place for the duration of a thread's stay.
  class Stay {
   public:
    /// Throws std::bad_alloc.
    explicit Stay(Sleepers& sleepers) : place(sleepers.join()), sleepers_(sleepers) {}
    ~Stay() { sleepers_.leave(place); }
    Stay(const Stay&) = delete;
    Stay& operator=(const Stay&) = delete;
    Place& place;

   private:
    Sleepers& sleepers_;
  };

  Sleepers() = default;
  ~Sleepers();
  Sleepers(const Sleepers&) = delete;
  Sleepers& operator=(const Sleepers&) = delete;

  /// A place for a thread. A late wake may leave a token in the place's parker for its next thread,
  /// so sleepers look again after a wake. Throws std::bad_alloc.
  [[nodiscard]] Place& join();
  void leave(Place& place) noexcept;

  /// Takes a sleeper off the count, for the caller to wake; null: no thread sleeps.
  [[nodiscard]] Place* take(ReadyCount<>& count) noexcept;
  /// Wakes every thread, asleep or not.
  void wake_all() noexcept;

 private:
  // Places are added at the front, under the lock, and stay; readers take no lock.
  std::atomic<Place*> first_{nullptr};
  std::mutex mutex_;
};

}  // namespace heddle::sched
