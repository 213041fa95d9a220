// Doorbell: between producers, which publish, and a consumer that is about to sleep because it
// found no work. The sleeper pays; at least one of the two sees the other's write (barrier.hpp):
//
//   producer: publish                  consumer: state_ |= parked
//             light barrier                      heavy barrier
//             state_ 0? no sleeper               look again: no work? sleep
//             parked? take the flag, wake
//
// Where barriers are not asymmetric, state_ is never 0, and both sides are exchanges of one word:
// the producer takes `parked`, or the consumer's look comes after the publication.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Doorbell {
 public:
  /// `closely`: quiet() is never true.
  explicit Doorbell(bool closely = false) noexcept
      : state_(closely || !Env::asymmetric() ? always : 0) {}

  /// Called after publishing. true: no wake is needed. Any thread.
  [[nodiscard]] bool quiet() const noexcept {
    Env::light_barrier();
    // relaxed: pairs with the exchange in park(), by the barriers.
    return state_.load(std::memory_order_relaxed) == 0;
  }
  /// Called after publishing. true: the caller must wake the consumer. Any thread.
  [[nodiscard]] bool ring() noexcept {
    if (quiet()) return false;
    // release: pairs with the exchange in park(), whose caller then sees the publication. A single
    // producer takes the flag, which carries no data; other producers do not wake.
    return (state_.fetch_and(always, std::memory_order_release) & parked) != 0;
  }

  /// Called before sleeping: the consumer must look once more afterwards, and then sleep or call
  /// unpark().
  void park() noexcept {
    // acquire: pairs with the exchange in ring(); and with the load in quiet(), by the barriers.
    state_.fetch_or(parked, std::memory_order_acquire);
    Env::heavy_barrier();
  }
  /// The consumer found work after all. A producer that still sees the flag makes one superfluous
  /// wake, which only costs a turn.
  void unpark() noexcept {
    // relaxed: carries no data.
    state_.fetch_and(always, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t parked = 1;
  static constexpr std::uint32_t always = 2;  // never changes

  typename Env::template atomic<std::uint32_t> state_;
};

}  // namespace heddle::sched
