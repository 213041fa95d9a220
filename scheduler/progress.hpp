// Progress: how far a timeline has come, and whether somebody waits for it. One completer at a
// time; any thread waits.
//
// Who sleeps pays. A waiter counts itself and makes sure that the completer is watched, raising
// `watched_` and passing the heavy barrier when it is not. A completer that is not watched stores
// `completed_`, passes the light barrier and reads `watched_`: either it sees the waiter, or the
// waiter, who reads `completed_` again, sees the ticket. A watched completer and its waiters use
// seq_cst accesses (Dekker) until nobody has waited for a while:
//
//   completer, watched                    waiter
//   completed_ = ticket                   waiters_ += 1
//   waiters_ > 0: somebody waits          watched_ still raised?  else raise it, heavy barrier
//   else, for the nth time:               completed_ reached?  need not wait
//     watched_ = false, waiters_ again
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

template <class Env = StdEnv, std::uint32_t unasked_max = tuning::unasked_max>
class Progress {
 public:
  [[nodiscard]] std::uint64_t completed() const noexcept {
    // acquire: pairs with the stores in advance(): what the task did is visible to who sees it
    // done.
    return completed_.load(std::memory_order_acquire);
  }

  /// All tickets up to this one have ended. The completer. true: somebody may wait for them.
  [[nodiscard]] bool advance(std::uint64_t ticket) noexcept {
    if (watching_) return advance_watched(ticket);
    // release: pairs with the acquire in completed().
    completed_.store(ticket, std::memory_order_release);
    Env::light_barrier();
    // acquire: pairs with the release in add_waiter(): the waiters of who raised it are seen.
    if (!watched_.load(std::memory_order_acquire)) [[likely]]
      return false;
    watching_ = true;
    return true;
  }

  /// Counts a waiter for `ticket`, who has left word where the completer will look once it knows of
  /// it. false: the ticket has ended, and may have been missed.
  [[nodiscard]] bool add_waiter(std::uint64_t ticket) noexcept {
    // seq_cst: the waiter's side of the protocol above, as for the next two loads.
    waiters_.fetch_add(1, std::memory_order_seq_cst);
    if (!watched_.load(std::memory_order_seq_cst)) {
      // release: pairs with the acquire in advance().
      watched_.store(true, std::memory_order_release);
      Env::heavy_barrier();
    }
    // seq_cst: as above.
    return completed_.load(std::memory_order_seq_cst) < ticket;
  }
  void remove_waiter() noexcept {
    // relaxed: pairs with the load in advance_watched(); whoever reads less than there are took one
    // itself or is followed by who did.
    waiters_.fetch_sub(1, std::memory_order_relaxed);
  }

  /// Those counted and not yet removed; exact when nothing happens.
  [[nodiscard]] std::uint32_t waiters() const noexcept {
    // relaxed: a number for people.
    return waiters_.load(std::memory_order_relaxed);
  }

  /// Begins a new count. Nobody completes and nobody waits.
  void restart() noexcept {
    watching_ = false;
    unasked_ = 0;
    // relaxed: the next waiter and the completer come after who restarts.
    watched_.store(false, std::memory_order_relaxed);
    // release: pairs with the acquire in completed(), for events of the timeline that was here.
    completed_.store(0, std::memory_order_release);
  }

 private:
  [[nodiscard]] bool advance_watched(std::uint64_t ticket) noexcept {
    // seq_cst: release pairs with the acquire in completed(); the total order is that of the
    // protocol above, as for the next three.
    completed_.store(ticket, std::memory_order_seq_cst);
    if (waiters_.load(std::memory_order_seq_cst) != 0) {
      unasked_ = 0;
      return true;
    }
    if (++unasked_ < unasked_max) return false;
    unasked_ = 0;
    // seq_cst: pairs with the load in add_waiter(): who still found it raised is seen by the load
    // below.
    watched_.store(false, std::memory_order_seq_cst);
    watching_ = waiters_.load(std::memory_order_seq_cst) != 0;
    // relaxed: the waiter found it raised, or passes the heavy barrier.
    if (watching_) watched_.store(true, std::memory_order_relaxed);
    return watching_;
  }

  // Written by the completer.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> completed_{0};
  bool watching_ = false;      // what the completer knows of watched_
  std::uint32_t unasked_ = 0;  // tasks since somebody waited, while watched
  // Written by waiters.
  alignas(tuning::line_bytes) typename Env::template atomic<bool> watched_{false};
  typename Env::template atomic<std::uint32_t> waiters_{0};
};

}  // namespace heddle::sched
