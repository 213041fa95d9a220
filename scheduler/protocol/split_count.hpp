// SplitCount: how many uses of a thing are under way, where one side begins them and another ends
// them, each with a count of its own: no line goes to and fro between the two, as that of one
// shared count would with each use. The two counts meet once, when the owner lets go.
//
//   owner: begin()            any thread: end()                 owner: let_go(), once
//   begun += 1                ended += 1                        ended -= begun
//                             0 now, so after let_go(): last    0 now: none is under way: last
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class SplitCount {
 public:
  /// One more use, which will end. One thread at a time, before let_go().
  void begin() noexcept { ++begun_; }
  /// One has ended. Any thread. true: it was the last, and the owner has let go: the caller
  /// destroys the thing.
  [[nodiscard]] bool end() noexcept {
    // acq_rel: the release pairs with the acquires here and in let_go(), so that all uses come
    // before the destruction; the acquire pairs with the release in let_go() too.
    return ended_.fetch_add(1, std::memory_order_acq_rel) == -1;
  }
  /// The owner begins no more. Once. true: no use is under way: the caller destroys the thing.
  [[nodiscard]] bool let_go() noexcept {
    const std::int64_t begun = begun_;  // first: the thing may be gone at once
    // acq_rel: as above.
    return ended_.fetch_sub(begun, std::memory_order_acq_rel) == begun;
  }

 private:
  std::int64_t begun_ = 0;  // the owner's
  // From let_go() on below 0: less those that were begun.
  alignas(tuning::line_bytes) typename Env::template atomic<std::int64_t> ended_{0};
};

}  // namespace heddle::sched
