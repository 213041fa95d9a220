// SplitCount: the number of active uses of an object, where one side begins uses and another side
// ends them. Each side has its own count: no cache line moves between the two sides with every use,
// as the line of a shared count would. The counts meet once, when the owner lets go.
//
//   owner: begin()            any thread: end()                 owner: let_go(), once
//   begun += 1                ended += 1                        ended -= begun
//                             0 now, after let_go(): last use   0 now: no use is active: last
//
// The first thread that ends uses has a count to itself until the owner lets go (see Bias): its
// ends cost no locked access.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"
#include "scheduler/protocol/bias.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class SplitCount {
 public:
  /// One more use begins, and will end. One thread at a time, before let_go().
  void begin() noexcept { ++begun_; }
  /// A use that began does not happen. Like begin().
  void take_back() noexcept { --begun_; }
  /// One use has ended. Any thread; `me`: its number. true: the use was the last, and the owner has
  /// let go: the caller destroys the object.
  [[nodiscard]] bool end(std::uint64_t me) noexcept {
    if (bias_.enter(me)) [[likely]] {
      ++ended_alone_;
      bias_.leave();
      return false;
    }
    static_cast<void>(bias_.claim(me));  // first: the object may be destroyed at once
    // acq_rel: the release pairs with the acquires here and in let_go(), which order every use
    // before the destruction; the acquire pairs with the release in let_go() too.
    return ended_.fetch_add(1, std::memory_order_acq_rel) == -1;
  }
  /// The owner begins no more uses. Called once. true: no use is active, and the caller destroys
  /// the object.
  [[nodiscard]] bool let_go() noexcept {
    bias_.revoke();
    const std::int64_t left = begun_ - ended_alone_;  // first: the object may be destroyed at once
    // acq_rel: as above.
    return ended_.fetch_sub(left, std::memory_order_acq_rel) == left;
  }
  /// For a forked child: a thread that does not exist there was ending a use at the fork. Whether
  /// the use has ended is then unknown, and let_go() would wait for ever.
  [[nodiscard]] bool is_torn() const noexcept { return bias_.is_inside(); }

 private:
  std::int64_t begun_ = 0;  // used by the owner
  // Below 0 from let_go() on: reduced by the number of begun uses that had not ended alone.
  alignas(tuning::line_bytes) typename Env::template atomic<std::int64_t> ended_{0};
  Bias<Env> bias_;
  std::int64_t ended_alone_ = 0;  // used inside the bias, and once it is revoked
};

}  // namespace heddle::sched
