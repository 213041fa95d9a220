// Progress: how far a timeline has come, and the first ticket that a thread waits for. One
// completer at a time; any thread waits, and waiters agree on that ticket under a lock.
//
// The sleeper pays. An unwatched completer stores `completed_`, passes the light barrier and reads
// `look_from_`, the ticket from which on it must look closer. A waiter stores the ticket that is
// due, and makes sure that the completer is watched: if not, the waiter raises `watched_` and
// passes the heavy barrier. Hence either the completer looks, or the waiter, which reads
// `completed_` again, sees the ticket. A watched completer and its waiters use seq_cst accesses
// (Dekker) until no thread has waited for a while; the completer then continues unwatched, knowing
// which ticket is due.
//
//   completer                            waiter
//   completed_ = ticket                  due_ = the first ticket that a thread waits for
//   light barrier                        watched_ still raised?
//   ticket < look_from_: return            if not: raise it, look_from_ = 0, heavy barrier
//   watched: completed_ = ticket         completed_ reached?  need not wait
//   due_ <= ticket: a thread waits
//   no thread waits, for the nth time:
//     look_from_ = due_, watched_ = false, due_ again
//
// Where barriers are not asymmetric, completers are always watched.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

template <class Env = StdEnv, std::uint32_t unasked_max = tuning::unasked_max>
class Progress {
 public:
  static constexpr std::uint64_t nobody = ~std::uint64_t{0};

  [[nodiscard]] std::uint64_t completed() const noexcept {
    // acquire: pairs with the stores in advance(): a thread that sees the task done sees the task's
    // writes.
    return completed_.load(std::memory_order_acquire);
  }

  /// Every ticket up to `ticket` has ended. Called by the completer. true: look() must follow.
  [[nodiscard]] bool pass(std::uint64_t ticket) noexcept {
    // release: pairs with the acquire in completed().
    completed_.store(ticket, std::memory_order_release);
    Env::light_barrier();
    // acquire: pairs with the releases in expect() and attract(): the completer sees the due
    // ticket.
    return ticket >= look_from_.load(std::memory_order_acquire);
  }
  /// Called after pass(), for the same ticket: whether a thread waits for it.
  [[nodiscard]] bool look(std::uint64_t ticket) noexcept {
    // seq_cst: release pairs with the acquire in completed(); the total order is the order of the
    // protocol above, here and in the accesses below.
    completed_.store(ticket, std::memory_order_seq_cst);
    const std::uint64_t due = due_.load(std::memory_order_seq_cst);  // seq_cst: as above
    if (due <= ticket) {
      unasked_ = 0;
      watch();
      return true;
    }
    if (++unasked_ < unasked_max || !Env::asymmetric()) return false;
    unasked_ = 0;
    // acquire: pairs with the release in attract(), whose store the exchange may overwrite. The
    // next store publishes the exchange: a waiter that finds watched_ lowered writes look_from_
    // after this exchange.
    look_from_.exchange(due, std::memory_order_acquire);
    // seq_cst: if a waiter still found watched_ raised in expect(), the load that follows sees the
    // waiter.
    watched_.store(false, std::memory_order_seq_cst);
    if (due_.load(std::memory_order_seq_cst) != due) watch();
    return false;
  }
  /// pass() and, if needed, look().
  [[nodiscard]] bool advance(std::uint64_t ticket) noexcept { return pass(ticket) && look(ticket); }

  /// Makes the completer look at a ticket soon: after this store, or after the look() that
  /// overwrites the store, the completer sees the caller's earlier writes. Any thread.
  void attract() noexcept {
    // release: pairs with the acquires in pass() and look().
    look_from_.store(0, std::memory_order_release);
  }

  /// The caller waits for `ticket`, and has registered where the completer looks for waiters.
  /// `first`: the first ticket that any thread waits for now. false: the ticket has ended, and the
  /// completer may have missed the caller. Called under the waiters' lock.
  [[nodiscard]] bool expect(std::uint64_t first, std::uint64_t ticket) noexcept {
    // seq_cst: the waiter's side of the protocol above, as are the next loads.
    due_.store(first, std::memory_order_seq_cst);
    if (!watched_.load(std::memory_order_seq_cst)) {
      // relaxed: the next store publishes the flag; the lock excludes other waiters.
      watched_.store(true, std::memory_order_relaxed);
      // release: pairs with the exchange in look(): a completer that overwrites this store, and
      // then lowers watched_, lowers it after the store above, which could otherwise leave it
      // raised for good.
      look_from_.store(0, std::memory_order_release);
      Env::heavy_barrier();
    }
    // seq_cst: as above.
    return completed_.load(std::memory_order_seq_cst) < ticket;
  }
  /// A thread waits no more. `first`: the first ticket that other threads wait for, or `nobody`.
  /// Called under the waiters' lock.
  void expect_no_sooner_than(std::uint64_t first) noexcept {
    // relaxed: pairs with the loads in look(); a completer that sees the store late looks in vain.
    due_.store(first, std::memory_order_relaxed);
  }

  /// Begins a new count. Requires that no thread completes or waits.
  void restart() noexcept {
    unasked_ = 0;
    // relaxed, three times: the next waiter and the completer come after the thread that restarts.
    look_from_.store(Env::asymmetric() ? nobody : 0, std::memory_order_relaxed);
    due_.store(nobody, std::memory_order_relaxed);
    watched_.store(!Env::asymmetric(), std::memory_order_relaxed);
    // release: pairs with the acquire in completed(), for events of the timeline's previous use.
    completed_.store(0, std::memory_order_release);
  }

 private:
  /// From here on the completer looks at every ticket.
  void watch() noexcept {
    // relaxed: the completer reads look_from_, here and in advance().
    if (look_from_.load(std::memory_order_relaxed) == 0) return;
    look_from_.store(0, std::memory_order_relaxed);  // relaxed: as above
    // relaxed: pairs with the load in expect(). If a waiter finds watched_ raised, the stores in
    // look() put the waiter and every ticket so far in one order; otherwise the waiter raises
    // watched_.
    watched_.store(true, std::memory_order_relaxed);
  }

  // Written by the completer.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> completed_{0};
  std::uint32_t unasked_ = 0;  // tickets that were looked at in vain since a thread last waited
  // Written by waiters, occasionally.
  alignas(tuning::line_bytes)
      typename Env::template atomic<std::uint64_t> look_from_{Env::asymmetric() ? nobody : 0};
  typename Env::template atomic<std::uint64_t> due_{nobody};
  typename Env::template atomic<bool> watched_{!Env::asymmetric()};
};

}  // namespace heddle::sched
