// Turns: a FIFO lock by counting: decides which thread runs a consumer that has no thread of its
// own. A thread that raises the count of requests from zero arranges a turn; a later thread only
// leaves its request in the count. A turn ends by returning the requests that it knows of, unless
// more have come, for which the consumer looks again. Hence there is one consumer at a time, and
// the consumer looks after every request.
//
//   asks:   publish data                   turn:   look, until no work is left
//           requests_ += 1; from 0?                requests_ = 0 if the known number
//           arrange a turn                         if not: take the new number, look again
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Turns {
 public:
  /// The state of the consumer may have changed. true: the caller arranges a turn; false: the
  /// consumer will look after this request. Any thread.
  [[nodiscard]] bool ask() noexcept {
    // acq_rel: pairs with the exchange in end(): the consumer that finds this request sees the
    // caller's earlier writes, and the thread that arranges the next turn sees the state in which
    // the last turn ended.
    return requests_.fetch_add(1, std::memory_order_acq_rel) == 0;
  }
  /// The consumer found no work; `known` requests came before its look, 1 at first. true: the turn
  /// is over; false: the consumer must look again. Called by the consumer.
  [[nodiscard]] bool end(std::uint64_t& known) noexcept {
    // acq_rel, acquire on failure: pairs with the additions in ask().
    return requests_.compare_exchange_strong(known, 0, std::memory_order_acq_rel,
                                             std::memory_order_acquire);
  }

 private:
  typename Env::template atomic<std::uint64_t> requests_{0};
};

}  // namespace heddle::sched
