// Doorbells: as Doorbell (doorbell.hpp), between one publishing thread and many threads that may
// sleep because they found no work. Every sleeper has a place, a bit of one word; the publisher
// wakes as many sleepers as there is work for.
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

  /// Called after publishing. true: no wake is needed. Any thread.
  [[nodiscard]] bool quiet() const noexcept {
    Env::light_barrier();
    // relaxed: pairs with the exchange in park(), by the barriers.
    return state_.load(std::memory_order_relaxed) == 0;
  }
  /// Called after publishing, if not quiet(): the places that may sleep.
  [[nodiscard]] std::uint64_t sleepers() noexcept {
    // release: pairs with the exchange in park(), whose caller then sees the publication. The
    // exchange changes no bit; it orders where membarrier is missing, because quiet() then orders
    // no accesses.
    return state_.fetch_or(0, std::memory_order_release) & ~always;
  }
  /// Takes up to `count` of `sleepers`: the caller must wake the sleepers whose bits are returned.
  [[nodiscard]] std::uint64_t take(std::uint64_t sleepers, unsigned count) noexcept {
    std::uint64_t chosen = 0;
    for (; count > 0 && sleepers != 0; --count) {
      chosen |= sleepers & -sleepers;
      sleepers &= sleepers - 1;
    }
    if (chosen == 0) return 0;
    // relaxed: the wake orders. One thread takes a flag, and only that thread wakes the sleeper.
    return state_.fetch_and(~chosen, std::memory_order_relaxed) & chosen;
  }

  /// Called before sleeping: the thread must look once more afterwards, and then sleep or call
  /// unpark(). `place`: the thread's own, below `places`.
  void park(unsigned place) noexcept {
    // acquire: pairs with the exchanges of publishers; and with the load in quiet(), by the
    // barriers.
    state_.fetch_or(std::uint64_t{1} << place, std::memory_order_acquire);
    Env::heavy_barrier();
  }
  /// The thread found work after all, or woke. A publisher that still saw the flag makes one
  /// superfluous wake, which only costs a turn.
  void unpark(unsigned place) noexcept {
    // relaxed: carries no data.
    state_.fetch_and(~(std::uint64_t{1} << place), std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t always = std::uint64_t{1} << places;  // never changes

  typename Env::template atomic<std::uint64_t> state_;
};

}  // namespace heddle::sched
