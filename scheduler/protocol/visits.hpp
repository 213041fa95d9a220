// Visits: reader sections. Up to 64 counters, chosen by thread number, count the visitors, so that
// threads which enter and leave all the time share no cache line. A remover learns when every
// visitor that was inside at some time has left; an object that no visitor can find any more can
// then be destroyed.
//
//   visitor                          remover
//   count of its place += 1          takes an object out of the visitors' reach
//   light barrier                    heavy barrier
//   finds an object, or none         reads the counts repeatedly until every count was 0 once
//   count of its place -= 1          then no visitor has the object
//
// A visitor that adds 1 after its count was seen to be 0 does not find the object, by the barriers.
// The counts need not be 0 at the same time. The first thread of a place has a part of the count to
// itself, which it changes by plain stores; the other threads share the other part, by additions.
// Where barriers are not asymmetric, all threads share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

template <class Env = StdEnv, std::size_t places = 64>
class Visits {
  static_assert(places >= 1 && places <= 64);

 public:
  /// How a visitor entered; passed to leave().
  enum class By : bool { own, shared };

  /// `thread`: the number of the calling thread, at least 1 and never reused.
  [[nodiscard]] By enter(std::uint64_t thread) noexcept {
    Count& count = counts_[thread % places];
    // relaxed: only thread `thread` writes its number.
    if (count.owner.load(std::memory_order_relaxed) == thread) [[likely]] {
      // relaxed: the owner alone writes `own`.
      const std::uint64_t own = count.own.load(std::memory_order_relaxed);
      // release: pairs with the load in pass(), as in leave(); and by the barriers, see above.
      count.own.store(own + visit + 1, std::memory_order_release);
      Env::light_barrier();
      return By::own;
    }
    // seq_cst: pairs with the load in pass(), see above: the visitor's next look is seq_cst, too.
    count.shared.fetch_add(visit + 1, std::memory_order_seq_cst);
    claim(count, thread);
    return By::shared;
  }
  /// Called with what enter() was given and returned. Any thread; By::own: the thread that entered,
  /// else the caller passes By::shared.
  void leave(std::uint64_t thread, By by) noexcept {
    Count& count = counts_[thread % places];
    if (by == By::own) {
      // relaxed: as in enter().
      const std::uint64_t own = count.own.load(std::memory_order_relaxed);
      // release: pairs with the load in pass(): the visitor's accesses come before the destruction.
      count.own.store(own - 1, std::memory_order_release);
      return;
    }
    // release: as above; a visitor that entered by the owner's part is seen there, too, by whoever
    // sees this.
    count.shared.fetch_sub(1, std::memory_order_release);
  }

  /// The remover's findings so far: a bit for each count that was seen to be 0.
  struct Seen {
    std::uint64_t empty = 0;
    bool began = false;
  };
  /// Looks again. One thread at a time for each `seen`, which begins empty after the removal. true:
  /// every visitor that was inside at the removal has left.
  [[nodiscard]] bool pass(Seen& seen) const noexcept {
    if (!std::exchange(seen.began, true)) Env::heavy_barrier();
    for (std::size_t k = 0; k < places; ++k) {
      // seq_cst: pairs with the addition in enter(), and acquires the releases of leave(). Read
      // first: a visitor that entered by the one part and left by the other is not missed.
      const std::uint64_t shared = counts_[k].shared.load(std::memory_order_seq_cst);
      // acquire: pairs with the stores in enter(), by the barriers too, and in leave().
      const std::uint64_t own = counts_[k].own.load(std::memory_order_acquire);
      if ((shared + own) % visit == 0) seen.empty |= std::uint64_t{1} << k;
    }
    return seen.empty == all;
  }
  /// The number of visits ever begun.
  [[nodiscard]] std::uint64_t total() const noexcept {
    std::uint64_t sum = 0;
    for (const Count& count : counts_) {
      // acquire: pairs with the release in leave(): of a visit that ended in `shared`, the begin
      // in `own` is seen, too.
      const std::uint64_t shared = count.shared.load(std::memory_order_acquire);
      // relaxed: a number for people.
      sum += (shared + count.own.load(std::memory_order_relaxed)) / visit;
    }
    return sum;
  }

 private:
  static constexpr std::uint64_t all = ~std::uint64_t{0} >> (64 - places);
  static constexpr std::uint64_t visit = std::uint64_t{1} << 20;  // exceeds the visitors inside
  static constexpr std::uint64_t no_thread = 0;
  /// Each part holds a number of visitors, plus `visit` for every visit ever begun. A visitor may
  /// leave by another part than it entered: the sum of the parts is what counts.
  struct Count {
    alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> owner{no_thread};
    typename Env::template atomic<std::uint64_t> own{0};
    typename Env::template atomic<std::uint64_t> shared{0};
  };

  /// The first thread of a place becomes its owner, for later visits.
  static void claim(Count& count, std::uint64_t thread) noexcept {
    // relaxed: a first look that saves later threads the locked access.
    if (!Env::asymmetric() || count.owner.load(std::memory_order_relaxed) != no_thread) return;
    std::uint64_t none = no_thread;
    // relaxed: carries no data; pairs with itself.
    count.owner.compare_exchange_strong(none, thread, std::memory_order_relaxed,
                                        std::memory_order_relaxed);
  }

  Count counts_[places];
};

}  // namespace heddle::sched
