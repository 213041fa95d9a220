// Bias: a critical section that costs its only user two plain stores, until another thread needs
// the section; from then on the bias belongs to no thread for good. (Biased locking as of
// Kawachiya, Koseki and Onodera, OOPSLA 2002, with an asymmetric fence.)
//
//   owner: enter()                          revoker: revoke()
//   busy_ = true                            owner_ = no thread
//   light barrier                           heavy barrier
//   owner_ still me? if not, busy_ = false  wait until busy_ is false
//
// By the barriers at least one of the two threads sees the other: once revoke() returns, no owner
// is inside, and the owner's accesses inside are visible. Where barriers are not asymmetric, no
// thread becomes the owner: entering would cost a fence, as much as the locked access that a bias
// saves.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Bias {
 public:
  /// true: the caller is inside until leave(); false: the bias is not towards `me`. Thread numbers
  /// are at least 1 and never reused; a thread without a number passes 0, and never enters.
  [[nodiscard]] bool enter(std::uint64_t me) noexcept {
    // relaxed: validated below.
    if (owner_.load(std::memory_order_relaxed) != me) return false;
    // relaxed: pairs with the load in revoke(), by the barriers.
    busy_.store(true, std::memory_order_relaxed);
    Env::light_barrier();
    // relaxed: pairs with the exchange in revoke(), by the barriers. Only thread `me` writes `me`.
    if (owner_.load(std::memory_order_relaxed) == me) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() noexcept {
    // release: pairs with the acquire in revoke(): the revoker sees every access made inside.
    busy_.store(false, std::memory_order_release);
  }

  /// Claims a bias that no thread has claimed yet. Afterwards enter() may succeed.
  [[nodiscard]] bool claim(std::uint64_t me) noexcept {
    // relaxed: a first look that saves later threads the locked access.
    if (!Env::asymmetric() || owner_.load(std::memory_order_relaxed) != unclaimed) return false;
    std::uint64_t none = unclaimed;
    // relaxed: carries no data; the first owner finds the state that the constructor left.
    return owner_.compare_exchange_strong(none, me, std::memory_order_relaxed,
                                          std::memory_order_relaxed);
  }

  /// After the call no thread is inside, or will be. Any thread except the owner while inside;
  /// repeated calls are cheap.
  void revoke() noexcept {
    // acquire: pairs with the release below: a thread that finds the bias revoked need not wait.
    std::uint64_t before = owner_.load(std::memory_order_acquire);
    do {
      if (before == revoked) return;
      // acquire, twice: as above. `revoking` carries no data: a thread that finds `revoking` passes
      // the barrier, too.
    } while (!owner_.compare_exchange_weak(before, revoking, std::memory_order_acquire,
                                           std::memory_order_acquire));
    if (before != unclaimed) Env::heavy_barrier();
    // acquire: pairs with the release in leave().
    while (busy_.load(std::memory_order_acquire)) Env::relax();
    // release: pairs with the acquire above.
    owner_.store(revoked, std::memory_order_release);
  }

  /// No thread has claimed the bias. The caller must exclude claims for as long as the answer
  /// matters.
  [[nodiscard]] bool is_unclaimed() const noexcept {
    // relaxed: the caller's exclusion of claims orders the load.
    return owner_.load(std::memory_order_relaxed) == unclaimed;
  }
  /// For a forked child: whether the owner, which does not exist in the child, was inside at the
  /// fork.
  [[nodiscard]] bool is_inside() const noexcept {
    // relaxed: the store precedes the existence of this process.
    return busy_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool is_revoked() const noexcept {
    // relaxed: a hint.
    return owner_.load(std::memory_order_relaxed) == revoked;
  }

 private:
  static constexpr std::uint64_t unclaimed = ~std::uint64_t{0} - 2;
  static constexpr std::uint64_t revoking = ~std::uint64_t{0} - 1;
  static constexpr std::uint64_t revoked = ~std::uint64_t{0};

  typename Env::template atomic<std::uint64_t> owner_{unclaimed};
  typename Env::template atomic<bool> busy_{false};
};

}  // namespace heddle::sched
