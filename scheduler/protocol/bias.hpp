// Bias: a critical section that costs its one user two plain stores, until somebody else needs it;
// from then on it is nobody's for good. (Biased locking as of Kawachiya, Koseki and Onodera, OOPSLA
// 2002, with an asymmetric fence.)
//
//   owner: enter()                        revoker: revoke()
//   busy_ = true                          owner_ = nobody
//   light barrier                         heavy barrier
//   owner_ still me? else busy_ = false   wait until busy_ is false
//
// By the barriers one of the two sees the other: no owner is inside once revoke() returns, and what
// it did there is visible. Where barriers are not asymmetric, nobody owns it: entering would cost a
// fence, as much as the locked access that it saves.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Bias {
 public:
  /// Inside, until leave(); false: the bias is not towards `me`. Numbers of threads are never
  /// reused and at least 1; a thread without one, 0, is never inside.
  [[nodiscard]] bool enter(std::uint64_t me) noexcept {
    // relaxed: validated below.
    if (owner_.load(std::memory_order_relaxed) != me) return false;
    // relaxed: pairs with the load in revoke(), by the barriers.
    busy_.store(true, std::memory_order_relaxed);
    Env::light_barrier();
    // relaxed: pairs with the exchange in revoke(), by the barriers. Only `me` writes `me`.
    if (owner_.load(std::memory_order_relaxed) == me) [[likely]]
      return true;
    leave();
    return false;
  }
  void leave() noexcept {
    // release: pairs with the acquire in revoke(): the thread that revokes sees all that was done
    // inside.
    busy_.store(false, std::memory_order_release);
  }

  /// Takes a bias that nobody had yet. Then enter() may succeed.
  [[nodiscard]] bool claim(std::uint64_t me) noexcept {
    // relaxed: a look that spares threads that come later the locked access.
    if (!Env::asymmetric() || owner_.load(std::memory_order_relaxed) != unclaimed) return false;
    std::uint64_t none = unclaimed;
    // relaxed: carries nothing; the first owner finds what the constructor left.
    return owner_.compare_exchange_strong(none, me, std::memory_order_relaxed,
                                          std::memory_order_relaxed);
  }

  /// After this nobody is inside, nor will be. Any thread but the owner inside; again is cheap.
  void revoke() noexcept {
    // acquire: pairs with the release below: a thread that finds it revoked need not wait.
    std::uint64_t before = owner_.load(std::memory_order_acquire);
    do {
      if (before == revoked) return;
      // acquire, both: as above. `revoking` carries nothing: a thread that finds it passes the
      // barrier, too.
    } while (!owner_.compare_exchange_weak(before, revoking, std::memory_order_acquire,
                                           std::memory_order_acquire));
    if (before != unclaimed) Env::heavy_barrier();
    // acquire: pairs with the release in leave().
    while (busy_.load(std::memory_order_acquire)) Env::relax();
    // release: pairs with the acquire above.
    owner_.store(revoked, std::memory_order_release);
  }

  /// Nobody has claimed it, nor will while the caller keeps them from it.
  [[nodiscard]] bool is_unclaimed() const noexcept {
    // relaxed: what keeps others from claiming it orders it.
    return owner_.load(std::memory_order_relaxed) == unclaimed;
  }
  /// In a forked child: the owner, which is not there, was.
  [[nodiscard]] bool is_inside() const noexcept {
    // relaxed: written before this process was.
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
