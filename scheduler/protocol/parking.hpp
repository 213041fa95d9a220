// Parking: hands an object from the thread that leaves it to the thread that continues with it, in
// whichever order the two come (a suspending fiber against the thread that ends the fiber's wait).
// One word decides:
//
//   leaver: empty -> parked, forgets the object    waker: empty -> token, does not continue
//           token -> empty, continues itself              parked -> empty, continues
//
// A waker may also come late, or without a reason: its token makes the next leaver return once, and
// the continuing thread therefore checks again the condition that it waited for.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Parking {
 public:
  /// Called after the object was left. true: the waker will continue; false: the waker came first,
  /// and the caller must continue.
  [[nodiscard]] bool park() noexcept {
    State seen = empty;
    // acq_rel: release pairs with the exchange in unpark(), so the continuing thread finds the
    // object as it was left. acquire on failure: pairs with the same exchange, for the waker's
    // earlier writes.
    if (state_.compare_exchange_strong(seen, parked, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      return true;
    }
    // acquire: takes the token, also a token left meanwhile; pairs with the exchange in unpark().
    state_.exchange(empty, std::memory_order_acquire);
    return false;
  }

  /// Any thread, any number of times, also late. true: the caller must continue with the object.
  [[nodiscard]] bool unpark() noexcept {
    State seen = empty;
    // acq_rel: pairs with the exchanges in park(). relaxed on failure: the loop checks the value
    // again.
    while (!state_.compare_exchange_weak(seen, seen == parked ? empty : token,
                                         std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
    return seen == parked;
  }

  /// No object is parked, and wakers that come now are late: a token is dropped.
  void forget_token() noexcept {
    // relaxed: pairs with no other access; further late wakers may come after the store.
    state_.store(empty, std::memory_order_relaxed);
  }

 private:
  enum State : std::uint32_t { empty, token, parked };

  typename Env::template atomic<State> state_{empty};
};

}  // namespace heddle::sched
