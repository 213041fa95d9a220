// Turns: which thread gives a consumer without one its turns. Whoever raises the count of requests
// from zero sees to a turn; a thread that comes later leaves a request in it. A turn ends by giving
// the requests back that it knows of, unless there are more, for which it looks again. So there is
// one consumer at a time, and it looks after each request.
//
//   asks:   publish something              turn:   look, until there is nothing
//           requests_ += 1; from 0?                requests_ = 0 if it is what I know of
//           see to a turn                          else know of that many, look again
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Turns {
 public:
  /// Something may have changed for the consumer. true: the caller sees to a turn; else there will
  /// be a look after this. Any thread.
  [[nodiscard]] bool ask() noexcept {
    // acq_rel: pairs with the exchange in end(): the consumer that finds this request sees what was
    // published before, and the thread that sees to the next turn the state in which the last one
    // ended.
    return requests_.fetch_add(1, std::memory_order_acq_rel) == 0;
  }
  /// Found nothing; `known` requests came before that, 1 at first. true: the turn is over; else it
  /// has to look again. The consumer.
  [[nodiscard]] bool end(std::uint64_t& known) noexcept {
    // acq_rel, acquire on failure: pairs with the additions in ask().
    return requests_.compare_exchange_strong(known, 0, std::memory_order_acq_rel,
                                             std::memory_order_acquire);
  }

 private:
  typename Env::template atomic<std::uint64_t> requests_{0};
};

}  // namespace heddle::sched
