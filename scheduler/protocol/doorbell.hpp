// Doorbell: between producers, which publish something, and a consumer that is about to sleep
// because it saw nothing. The sleeper pays; one of the two sees the other's write (barrier.hpp):
//
//   producer: publish                  consumer: state_ |= parked
//             light barrier                      heavy barrier
//             state_ 0? nobody sleeps            look again: nothing? sleep
//             else parked? take it, wake
//
// Where barriers are not asymmetric, state_ is never 0, and both sides are exchanges of one word:
// the producer takes `parked`, or the consumer's look comes after what the producer published.
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

  /// After publishing. true: nobody has to be woken. Any thread.
  [[nodiscard]] bool quiet() const noexcept {
    Env::light_barrier();
    // relaxed: pairs with the exchange in park(), by the barriers.
    return state_.load(std::memory_order_relaxed) == 0;
  }
  /// After publishing. true: the caller has to wake the consumer. Any thread.
  [[nodiscard]] bool ring() noexcept {
    if (quiet()) return false;
    // release: pairs with the exchange in park(), whose caller then sees what was published. One
    // takes the flag, which tells it nothing else; the others have nothing to do.
    return (state_.fetch_and(always, std::memory_order_release) & parked) != 0;
  }

  /// Before sleeping: the consumer has to look once more after this, and either sleeps or calls
  /// unpark().
  void park() noexcept {
    // acquire: pairs with the exchange in ring(); and with the load in quiet(), by the barriers.
    state_.fetch_or(parked, std::memory_order_acquire);
    Env::heavy_barrier();
  }
  /// The consumer found something after all. A producer that still sees the flag wakes once too
  /// often, which only costs a turn.
  void unpark() noexcept {
    // relaxed: carries nothing.
    state_.fetch_and(always, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint32_t parked = 1;
  static constexpr std::uint32_t always = 2;  // stays as it is

  typename Env::template atomic<std::uint32_t> state_;
};

}  // namespace heddle::sched
