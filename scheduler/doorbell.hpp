// Doorbell: between producers, who publish something, and a consumer that is about to sleep because
// it saw nothing. Who sleeps pays; one of the two sees the other's write (barrier.hpp):
//
//   producer: publish                  consumer: parked_ = true
//             light barrier                      heavy barrier
//             parked_? take it, wake             look again: nothing? sleep
#pragma once

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Doorbell {
 public:
  /// After publishing. true: the caller has to wake the consumer. Any thread.
  [[nodiscard]] bool ring() noexcept {
    Env::light_barrier();
    // relaxed: pairs with the store in park(), by the barriers.
    if (!parked_.load(std::memory_order_relaxed)) [[likely]]
      return false;
    // acq_rel: one takes it; the others have nothing to do.
    return parked_.exchange(false, std::memory_order_acq_rel);
  }

  /// Before sleeping: the consumer has to look once more after this, and either sleeps or calls
  /// unpark().
  void park() noexcept {
    // relaxed: pairs with the load in ring(), by the barriers.
    parked_.store(true, std::memory_order_relaxed);
    Env::heavy_barrier();
  }
  /// The consumer found something after all. A producer that still sees the flag wakes once too
  /// often, which only costs a turn.
  void unpark() noexcept {
    // relaxed: carries nothing.
    parked_.store(false, std::memory_order_relaxed);
  }

 private:
  typename Env::template atomic<bool> parked_{false};
};

}  // namespace heddle::sched
