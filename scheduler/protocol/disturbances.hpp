// Disturbances: whether a device lets go of tasks that have their tickets, by a cancel or before a
// recovery. While it does not, a task that failed or was left out keeps all later ones from
// running; so one that reads what it writes need not look how it ended.
//
//   submitter of b, which reads what a writes       canceller
//   before = begun()                                begin()
//   takes its ticket                                heavy barrier
//   light barrier                                   reads how many tickets were taken
//   changed_since(before)?                          lets go of those
//                                                   end()
//
// By the barriers, a submitter whose ticket is not let go of sees the change; and what was noted of
// a, once that was quiet and is the same, had its ticket after all that was begun had ended.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Disturbances {
 public:
  /// How many have begun so far, and how many of them are under way. Any thread.
  [[nodiscard]] std::uint64_t begun() const noexcept {
    // acquire: pairs with the release in end(): a ticket taken after that is not let go of.
    return word_.load(std::memory_order_acquire);
  }
  /// None was under way.
  [[nodiscard]] static constexpr bool is_quiet(std::uint64_t begun) noexcept {
    return begun % one == 0;
  }
  /// After a ticket was taken: whether one has begun since that need not let go of it.
  [[nodiscard]] bool changed_since(std::uint64_t before) noexcept {
    if (!Env::asymmetric()) {
      // acq_rel: of this and the addition in begin() the later one sees what came before the other.
      return word_.fetch_add(0, std::memory_order_acq_rel) != before;
    }
    Env::light_barrier();
    // relaxed: pairs with the addition in begin(), by the barriers.
    return word_.load(std::memory_order_relaxed) != before;
  }

  /// While it lives, tasks are let go of.
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

  static constexpr std::uint64_t one = 1 << 16;  // more threads than that are in none at once

  typename Env::template atomic<std::uint64_t> word_{0};
};

}  // namespace heddle::sched
