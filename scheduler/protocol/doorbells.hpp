// Doorbells: as Doorbell (doorbell.hpp), between one thread that publishes and many that may sleep
// because they saw nothing: each has a place, a bit of one word, and as many are woken as there is
// something for.
#pragma once

#include <bit>
#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Doorbells {
 public:
  static constexpr unsigned places = 63;

  Doorbells() noexcept : state_(Env::asymmetric() ? 0 : always) {}

  /// After publishing. true: nobody has to be woken. Any thread.
  [[nodiscard]] bool quiet() const noexcept {
    Env::light_barrier();
    // relaxed: pairs with the exchange in park(), by the barriers.
    return state_.load(std::memory_order_relaxed) == 0;
  }
  /// After publishing, where it is not quiet: who may sleep.
  [[nodiscard]] std::uint64_t sleepers() noexcept {
    // release: pairs with the exchange in park(), whose caller then sees what was published. An
    // exchange that changes nothing: without membarrier, quiet() has ordered nothing.
    return state_.fetch_or(0, std::memory_order_release) & ~always;
  }
  /// Takes up to `count` of `sleepers`: the caller has to wake those whose bits are returned.
  [[nodiscard]] std::uint64_t take(std::uint64_t sleepers, unsigned count) noexcept {
    std::uint64_t chosen = 0;
    for (; count > 0 && sleepers != 0; --count) {
      chosen |= sleepers & -sleepers;
      sleepers &= sleepers - 1;
    }
    if (chosen == 0) return 0;
    // relaxed: the wake orders. One thread takes a flag; the others have nothing to do for it.
    return state_.fetch_and(~chosen, std::memory_order_relaxed) & chosen;
  }

  /// Before sleeping: the thread has to look once more after this, and either sleeps or calls
  /// unpark(). `place`: below places, its own.
  void park(unsigned place) noexcept {
    // acquire: pairs with the exchanges of those that publish; and with the load in quiet(), by the
    // barriers.
    state_.fetch_or(std::uint64_t{1} << place, std::memory_order_acquire);
    Env::heavy_barrier();
  }
  /// Found something after all, or woke. Who still saw the flag wakes once too often, which only
  /// costs a turn.
  void unpark(unsigned place) noexcept {
    // relaxed: carries nothing.
    state_.fetch_and(~(std::uint64_t{1} << place), std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t always = std::uint64_t{1} << places;  // stays as it is

  typename Env::template atomic<std::uint64_t> state_;
};

}  // namespace heddle::sched
