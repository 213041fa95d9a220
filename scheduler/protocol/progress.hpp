// Progress: how far a timeline has come, and the first ticket that somebody waits for. One
// completer at a time; any thread waits, and waiters agree on that ticket under a lock.
//
// The sleeper pays. A completer that is not watched stores `completed_`, passes the light barrier
// and reads from which ticket on it has to look closer. A waiter notes what is due, and makes sure
// that the completer is watched: it raises `watched_` and passes the heavy barrier when it is not.
// So either the completer looks, or the waiter, which reads `completed_` again, sees the ticket. A
// watched completer and its waiters use seq_cst accesses (Dekker) until nobody has come to wait for
// a while; it goes on unwatched, knowing what is due.
//
//   completer                            waiter
//   completed_ = ticket                  due_ = the first ticket that is waited for
//   light barrier                        watched_ still raised?
//   ticket < look_from_: nothing to do     else raise it, look_from_ = 0, heavy barrier
//   watched: completed_ = ticket         completed_ reached?  need not wait
//   due_ <= ticket: somebody waits
//   else, for the nth time:
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
    // acquire: pairs with the stores in advance(): what the task did is visible to threads that see
    // it done.
    return completed_.load(std::memory_order_acquire);
  }

  /// All tickets up to this one have ended. The completer. true: look() must follow.
  [[nodiscard]] bool pass(std::uint64_t ticket) noexcept {
    // release: pairs with the acquire in completed().
    completed_.store(ticket, std::memory_order_release);
    Env::light_barrier();
    // acquire: pairs with the releases in expect() and attract(): what is due is seen.
    return ticket >= look_from_.load(std::memory_order_acquire);
  }
  /// After pass(), for the same ticket: whether somebody waits for it.
  [[nodiscard]] bool look(std::uint64_t ticket) noexcept {
    // seq_cst: release pairs with the acquire in completed(); the total order is that of the
    // protocol above, here and in what follows.
    completed_.store(ticket, std::memory_order_seq_cst);
    const std::uint64_t due = due_.load(std::memory_order_seq_cst);  // seq_cst: as above
    if (due <= ticket) {
      unasked_ = 0;
      watch();
      return true;
    }
    if (++unasked_ < unasked_max || !Env::asymmetric()) return false;
    unasked_ = 0;
    // acquire: pairs with the release in attract(), whose word this may take back. The next store
    // carries it: a waiter that finds watched_ down writes this after us.
    look_from_.exchange(due, std::memory_order_acquire);
    // seq_cst: a waiter that still found it raised in expect() is seen by the load that follows.
    watched_.store(false, std::memory_order_seq_cst);
    if (due_.load(std::memory_order_seq_cst) != due) watch();
    return false;
  }
  /// Both.
  [[nodiscard]] bool advance(std::uint64_t ticket) noexcept { return pass(ticket) && look(ticket); }

  /// Makes the completer look at a ticket soon: after this, or after the look that takes this back,
  /// it sees what the caller wrote before. Any thread.
  void attract() noexcept {
    // release: pairs with the acquires in pass() and look().
    look_from_.store(0, std::memory_order_release);
  }

  /// The caller waits for `ticket`, and `first` is the first ticket that anybody waits for now; it
  /// has left word where the completer will look for it. false: the ticket has ended, and may have
  /// been missed. Under the waiters' lock.
  [[nodiscard]] bool expect(std::uint64_t first, std::uint64_t ticket) noexcept {
    // seq_cst: the waiter's side of the protocol above, as for the next loads.
    due_.store(first, std::memory_order_seq_cst);
    if (!watched_.load(std::memory_order_seq_cst)) {
      // relaxed: the next store carries it; other waiters have the lock.
      watched_.store(true, std::memory_order_relaxed);
      // release: pairs with the exchange in look(): a completer that takes this back, and then
      // lowers watched_, does so after the store above, which would else raise it for good.
      look_from_.store(0, std::memory_order_release);
      Env::heavy_barrier();
    }
    // seq_cst: as above.
    return completed_.load(std::memory_order_seq_cst) < ticket;
  }
  /// Somebody waits no more: `first` is the first ticket that others wait for, or nobody. Under the
  /// waiters' lock.
  void expect_no_sooner_than(std::uint64_t first) noexcept {
    // relaxed: pairs with the loads in look(); a completer that sees it late looks in vain.
    due_.store(first, std::memory_order_relaxed);
  }

  /// Begins a new count. Nobody completes and nobody waits.
  void restart() noexcept {
    unasked_ = 0;
    // relaxed, all: the next waiter and the completer come after the thread that restarts.
    look_from_.store(Env::asymmetric() ? nobody : 0, std::memory_order_relaxed);
    due_.store(nobody, std::memory_order_relaxed);
    watched_.store(!Env::asymmetric(), std::memory_order_relaxed);
    // release: pairs with the acquire in completed(), for events of the timeline that was here.
    completed_.store(0, std::memory_order_release);
  }

 private:
  /// From here on the completer looks at each ticket.
  void watch() noexcept {
    // relaxed: read by the completer, here and in advance().
    if (look_from_.load(std::memory_order_relaxed) == 0) return;
    look_from_.store(0, std::memory_order_relaxed);  // relaxed: as above
    // relaxed: pairs with the load in expect(). A waiter that finds it raised is in one order with
    // all tickets so far, by the stores in look(); one that does not raises it.
    watched_.store(true, std::memory_order_relaxed);
  }

  // Written by the completer.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> completed_{0};
  std::uint32_t unasked_ = 0;  // tickets that were looked at in vain since somebody waited
  // Written by waiters, now and then.
  alignas(tuning::line_bytes)
      typename Env::template atomic<std::uint64_t> look_from_{Env::asymmetric() ? nobody : 0};
  typename Env::template atomic<std::uint64_t> due_{nobody};
  typename Env::template atomic<bool> watched_{!Env::asymmetric()};
};

}  // namespace heddle::sched
