// ReadyCount: the number of items ready to be taken, and the decision which worker to wake for
// them. Between threads that add, and workers that take, look for a while, and sleep. The items are
// in an inbox beside the count (protocol/inbox.hpp), and pushed there before they are counted.
//
// A worker that looks (spins) is counted, so that an adding thread need not wake a sleeper; the
// looking worker passes this duty on when it finds an item or goes to sleep. Any two accesses that
// could miss each other are seq_cst:
//
//   adds:      ready_ += 1                ends its look: looking_ -= 1
//              looking_ or no sleepers_?                 ready_ > 0, no other looks: wake one
//              if not, wake a sleeper:    sleeps:        sleepers_ += 1, raise its flag
//              lower flag, sleepers_ -= 1                ready_ > 0? lower flag, sleepers_ -= 1
//
// Every sleeper has a flag. The thread that lowers the flag takes the sleeper off the count, and
// wakes the flag's owner unless it is the owner. A sleeper is counted before it raises its flag,
// because only counted sleepers may be taken off: otherwise another worker would sleep uncounted.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// Raised by a thread that sleeps, or is about to.
template <class Env = StdEnv>
class SleeperFlag {
 public:
  /// Called by the flag's owner, before it looks once more.
  void raise() noexcept {
    // seq_cst: pairs with the accesses in lower(): the waking thread sees the flag, or the owner
    // sees the reason for the wake.
    raised_.store(true, std::memory_order_seq_cst);
  }
  /// Called by the flag's owner, or by the thread that wakes the owner. true: the caller lowered
  /// the flag.
  [[nodiscard]] bool lower() noexcept {
    // seq_cst: pairs with the store in raise(). acq_rel: of two exchanging threads, the first finds
    // the flag raised, and the second sees the first's earlier writes: a leaving owner sees the
    // reason for its wake.
    return raised_.load(std::memory_order_seq_cst) &&
           raised_.exchange(false, std::memory_order_acq_rel);
  }

 private:
  typename Env::template atomic<bool> raised_{false};
};

template <class Env = StdEnv>
class ReadyCount {
 public:
  /// One more item is ready. true: the caller must wake a sleeper.
  [[nodiscard]] bool add() noexcept {
    // seq_cst: release pairs with the acquire in take(), whose caller finds the item in the queue;
    // the total order is the order of the protocol above, here and in the accesses below.
    ready_.fetch_add(1, std::memory_order_seq_cst);
    return must_wake();
  }
  /// Takes an item off the count, if the count is not 0.
  [[nodiscard]] bool take() noexcept {
    // relaxed: validated by the exchange.
    std::uint32_t seen = ready_.load(std::memory_order_relaxed);
    while (seen != 0) {
      // acquire: pairs with the addition in add(). relaxed on failure: the loop checks again.
      if (ready_.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void begin_look() noexcept {
    // relaxed: pairs with the load in must_wake(): a thread that sees the addition late makes a
    // superfluous wake; end_look() sees the items of a thread that sees the addition.
    looking_.fetch_add(1, std::memory_order_relaxed);
  }
  /// Called after a look, whether an item was found or not. true: the caller must wake a sleeper.
  [[nodiscard]] bool end_look() noexcept {
    // seq_cst: pairs with the load in must_wake(): a thread that still saw this worker looking has
    // added its item before, and the call below sees the item.
    looking_.fetch_sub(1, std::memory_order_seq_cst);
    return more();
  }
  /// Called after an item was taken without a look, as woken workers do: there may be further items
  /// for which no worker was woken. true: the caller must wake a sleeper.
  [[nodiscard]] bool more() const noexcept {
    // seq_cst: pairs with the addition in add(), as in end_look().
    return ready_.load(std::memory_order_seq_cst) != 0 && must_wake();
  }

  /// Counts a sleeper, which can be woken from here on. false: an item is ready; the caller must
  /// take the sleeper off again with wake().
  [[nodiscard]] bool sleep(SleeperFlag<Env>& flag) noexcept {
    // seq_cst: pairs with the load in must_wake(): an adding thread sees the sleeper, or the
    // sleeper sees the addition.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    flag.raise();
    return ready_.load(std::memory_order_seq_cst) == 0;  // seq_cst: as above
  }
  /// Takes a sleeper off the count; false: the sleeper was taken off before, or does not sleep.
  /// true: the caller must wake the sleeper, unless the caller is the sleeper.
  [[nodiscard]] bool wake(SleeperFlag<Env>& flag) noexcept {
    if (!flag.lower()) return false;
    // relaxed: a thread that reads too high a count searches for a sleeper in vain.
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  [[nodiscard]] bool empty() const noexcept {
    // seq_cst: pairs with the addition in add(): a pool whose descriptor was opened, or that is
    // stopped, finds the items of threads that had not seen the change yet.
    return ready_.load(std::memory_order_seq_cst) == 0;
  }

 private:
  [[nodiscard]] bool must_wake() const noexcept {
    // seq_cst: pairs with the counts in end_look() and sleep().
    return looking_.load(std::memory_order_seq_cst) == 0 &&
           sleepers_.load(std::memory_order_seq_cst) != 0;  // seq_cst: as above
  }

  alignas(tuning::line_bytes) typename Env::template atomic<std::uint32_t> ready_{0};
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint32_t> looking_{0};
  typename Env::template atomic<std::uint32_t> sleepers_{0};
};

}  // namespace heddle::sched
