// Parking: hands something that one thread leaves to the one that goes on with it, whichever of the
// two comes first (a fiber that suspends against the thread that ends its wait). One word settles
// it:
//
//   leaver: empty -> parked, and forgets it       waker: empty -> token, has nothing to do
//           token -> empty, goes on itself               parked -> empty, goes on with it
//
// A waker may also come late, or for nothing: its token makes the next leaver come back once, so
// the thread that goes on looks again at what it waited for.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Parking {
 public:
  /// After having left: true when it is now the waker's to go on, false when the waker came first
  /// and the caller has to.
  [[nodiscard]] bool park() noexcept {
    State seen = empty;
    // acq_rel: release pairs with the exchange in unpark(), so the thread that goes on finds what
    // was left as it was left. acquire on failure: pairs with it for what the waker did before.
    if (state_.compare_exchange_strong(seen, parked, std::memory_order_acq_rel,
                                       std::memory_order_acquire)) {
      return true;
    }
    // acquire: takes the token, also one left meanwhile; pairs with the exchange in unpark().
    state_.exchange(empty, std::memory_order_acquire);
    return false;
  }

  /// Any thread, any number of times, also late: true when the caller has to go on with it.
  [[nodiscard]] bool unpark() noexcept {
    State seen = empty;
    // acq_rel: pairs with the exchanges in park(). relaxed on failure: the value is looked at
    // again.
    while (!state_.compare_exchange_weak(seen, seen == parked ? empty : token,
                                         std::memory_order_acq_rel, std::memory_order_relaxed)) {
    }
    return seen == parked;
  }

  /// Nobody left anything, and wakers that come now are late: a token is forgotten.
  void forget_token() noexcept {
    // relaxed: pairs with no other access; one more late waker may come after this all the same.
    state_.store(empty, std::memory_order_relaxed);
  }

 private:
  enum State : std::uint32_t { empty, token, parked };

  typename Env::template atomic<State> state_{empty};
};

}  // namespace heddle::sched
