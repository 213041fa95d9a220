// Disturbances: the cancel epoch of a device, a count of cancels and recoveries. Cancels and
// recoveries may drop tasks that already have tickets. While no disturbance is under way, a failed
// or skipped task keeps every later task from running; hence a task that reads the values of an
// earlier task needs no check of how that task ended.
//
//   submitter of b, which reads a's values         canceller
//   before = begun()                               begin()
//   takes its ticket                               heavy barrier
//   light barrier                                  reads the number of tickets taken
//   changed_since(before)?                         drops the tasks of these tickets
//                                                  end()
//
// By the barriers, a submitter whose ticket the canceller does not drop sees the change. If the
// epoch that was noted for a was quiet and is still the same, a took its ticket after every begun
// disturbance had ended.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Disturbances {
 public:
  /// The number of disturbances begun so far, and the number under way. Any thread.
  [[nodiscard]] std::uint64_t begun() const noexcept {
    // acquire: pairs with the release in end(): the ended disturbance does not drop a ticket taken
    // after this load.
    return word_.load(std::memory_order_acquire);
  }
  /// True if no disturbance was under way.
  [[nodiscard]] static constexpr bool is_quiet(std::uint64_t begun) noexcept {
    return begun % one == 0;
  }
  /// Called after a ticket was taken: whether a disturbance that may not drop the ticket has begun
  /// since `before`.
  [[nodiscard]] bool changed_since(std::uint64_t before) noexcept {
    if (!Env::asymmetric()) {
      // acq_rel: pairs with the addition in begin(): the later of the two sees the writes before
      // the earlier.
      return word_.fetch_add(0, std::memory_order_acq_rel) != before;
    }
    Env::light_barrier();
    // relaxed: pairs with the addition in begin(), by the barriers.
    return word_.load(std::memory_order_relaxed) != before;
  }

  /// A disturbance: tasks may be dropped during its lifetime.
  class Lasting {
   public:
    explicit Lasting(Disturbances& all) noexcept : all_(all) { all_.begin(); }
    ~Lasting() { all_.end(); }
    Lasting(const Lasting&) = delete;
    Lasting& operator=(const Lasting&) = delete;

   private:
    Disturbances& all_;
  };

 private:
  void begin() noexcept {
    // acq_rel: as in changed_since(), where barriers are not asymmetric.
    word_.fetch_add(one + 1, std::memory_order_acq_rel);
    if (Env::asymmetric()) Env::heavy_barrier();
  }
  void end() noexcept {
    // release: pairs with the acquire in begun().
    word_.fetch_sub(1, std::memory_order_release);
  }

  // exceeds the number of threads inside disturbances
  static constexpr std::uint64_t one = 1 << 16;

  typename Env::template atomic<std::uint64_t> word_{0};
};

}  // namespace heddle::sched
