// Visits: who is inside, counted by as many counts as there are threads at most, so that threads
// that come and go all the time share no line; and whether all who were inside at some time have
// left, so that what nobody can find any more can go.
//
//   visitor                          remover
//   count of its place += 1          takes a thing out of where visitors find it
//   finds a thing, or not            each count, in its own time: 0 seen
//   count of its place -= 1          all seen: nobody has the thing
//
// A visitor that adds one after its count was seen to be 0 does not find the thing: both go through
// one order of all seq_cst operations. Counts need not be 0 at one time.
#pragma once

#include <cstddef>
#include <cstdint>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

template <class Env = StdEnv, std::size_t places = 64>
class Visits {
  static_assert(places >= 1 && places <= 64);

 public:
  /// A number that belongs to the calling thread, or to few.
  void enter(std::uint64_t thread) noexcept {
    // seq_cst: pairs with the load in pass(), see above: what the visitor looks at next is seq_cst,
    // too.
    counts_[thread % places].word.fetch_add(visit + 1, std::memory_order_seq_cst);
  }
  /// With the same number.
  void leave(std::uint64_t thread) noexcept {
    // release: pairs with the load in pass(): what the visitor did comes before that is destroyed.
    counts_[thread % places].word.fetch_sub(1, std::memory_order_release);
  }

  /// What a remover has seen so far: a bit for each count.
  struct Seen {
    std::uint64_t empty = 0;
  };
  /// Looks again. One thread at a time for each `seen`, which begins empty after the removal. true:
  /// all who were inside then have left.
  [[nodiscard]] bool pass(Seen& seen) const noexcept {
    for (std::size_t k = 0; k < places; ++k) {
      // seq_cst: pairs with the addition in enter(), and acquires what was released in leave().
      const std::uint64_t inside = counts_[k].word.load(std::memory_order_seq_cst) % visit;
      if (inside == 0) seen.empty |= std::uint64_t{1} << k;
    }
    return seen.empty == all;
  }
  /// How many have entered, ever.
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    // relaxed: a number for people.
    for (const Count& count : counts_) sum += count.word.load(std::memory_order_relaxed) / visit;
    return sum;
  }

 private:
  static constexpr std::uint64_t all = ~std::uint64_t{0} >> (64 - places);
  static constexpr std::uint64_t visit = std::uint64_t{1} << 20;  // more are never inside
  struct Count {
    /// Those inside, plus `visit` for each that ever was.
    alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> word{0};
  };
  Count counts_[places];
};

}  // namespace heddle::sched
