// Visits: reader sections. Up to 64 counters, chosen by thread number, count the visitors, so that
// threads which enter and leave all the time share no cache line. A remover learns when every
// visitor that was inside at some time has left; an object that no visitor can find any more can
// then be destroyed.
//
//   visitor                          remover
//   count of its place += 1          takes an object out of the visitors' reach
//   finds an object, or none         reads the counts repeatedly until every count was 0 once
//   count of its place -= 1          then no visitor has the object
//
// A visitor that adds 1 after its count was seen to be 0 does not find the object: the order of
// seq_cst operations is common to both sides. The counts need not be 0 at the same time.
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
  /// `thread`: a number that belongs to the calling thread, or to few threads.
  void enter(std::uint64_t thread) noexcept {
    // seq_cst: pairs with the load in pass(), see above: the visitor's next look is seq_cst, too.
    counts_[thread % places].word.fetch_add(visit + 1, std::memory_order_seq_cst);
  }
  /// Called with the number that was passed to enter().
  void leave(std::uint64_t thread) noexcept {
    // release: pairs with the load in pass(): the visitor's accesses come before the destruction.
    counts_[thread % places].word.fetch_sub(1, std::memory_order_release);
  }

  /// The remover's findings so far: a bit for each count that was seen to be 0.
  struct Seen {
    std::uint64_t empty = 0;
  };
  /// Looks again. One thread at a time for each `seen`, which begins empty after the removal. true:
  /// every visitor that was inside at the removal has left.
  [[nodiscard]] bool pass(Seen& seen) const noexcept {
    for (std::size_t k = 0; k < places; ++k) {
      // seq_cst: pairs with the addition in enter(), and acquires the releases of leave().
      const std::uint64_t inside = counts_[k].word.load(std::memory_order_seq_cst) % visit;
      if (inside == 0) seen.empty |= std::uint64_t{1} << k;
    }
    return seen.empty == all;
  }
  /// The number of visits ever begun.
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    // relaxed: a number for people.
    for (const Count& count : counts_) sum += count.word.load(std::memory_order_relaxed) / visit;
    return sum;
  }

 private:
  static constexpr std::uint64_t all = ~std::uint64_t{0} >> (64 - places);
  static constexpr std::uint64_t visit = std::uint64_t{1} << 20;  // exceeds the visitors inside
  struct Count {
    /// The number of visitors inside, plus `visit` for every visit ever begun.
    alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> word{0};
  };
  Count counts_[places];
};

}  // namespace heddle::sched
