// ReadyCount: how many things are ready to be taken, and which worker has to be woken for them.
// Between threads that add, and workers that take, look for a while, and sleep. The things
// themselves are in an inbox beside it (protocol/inbox.hpp), put there before they are counted.
//
// A worker that looks (spins) is counted, so that a thread that adds need wake nobody; it hands
// that duty on when it finds something or goes to sleep. Every pair that could miss each other is
// seq_cst:
//
//   adds:      ready_ += 1                 looks no more:  looking_ -= 1
//              looking_ or no sleepers_?                   ready_ > 0 and nobody looks: wake one
//              else wake one: lower        sleeps:         sleepers_ += 1, raise its flag
//              a flag, sleepers_ -= 1                      ready_ > 0? lower it, sleepers_ -= 1
//
// Each sleeper has a flag; whoever lowers it takes it off the count, and wakes its owner or is it.
// It is counted before it raises the flag, so that nothing is taken off the count that is not on it
// yet: another worker would sleep uncounted.
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// Raised by a thread that sleeps, or is about to.
template <class Env = StdEnv>
class SleeperFlag {
 public:
  /// Its owner, before it looks once more.
  void raise() noexcept {
    // seq_cst: pairs with the accesses in lower(): the thread that wakes one sees the flag, or its
    // owner what there is to wake it for.
    raised_.store(true, std::memory_order_seq_cst);
  }
  /// Its owner, or the thread that wakes it. true: the caller lowered it.
  [[nodiscard]] bool lower() noexcept {
    // seq_cst: pairs with the store in raise(). acq_rel: of two that exchange, one finds it raised,
    // and the other sees what that one did before: an owner that leaves sees what it was woken for.
    return raised_.load(std::memory_order_seq_cst) &&
           raised_.exchange(false, std::memory_order_acq_rel);
  }

 private:
  typename Env::template atomic<bool> raised_{false};
};

template <class Env = StdEnv>
class ReadyCount {
 public:
  /// One more thing is ready. true: the caller has to wake a sleeper.
  [[nodiscard]] bool add() noexcept {
    // seq_cst: release pairs with the acquire in take(), whose caller finds the thing in the queue;
    // the total order is that of the protocol above, here and in what follows.
    ready_.fetch_add(1, std::memory_order_seq_cst);
    return must_wake();
  }
  /// Takes one, if there is one.
  [[nodiscard]] bool take() noexcept {
    // relaxed: validated by the exchange.
    std::uint32_t seen = ready_.load(std::memory_order_relaxed);
    while (seen != 0) {
      // acquire: pairs with the addition in add(). relaxed on failure: looked at again.
      if (ready_.compare_exchange_weak(seen, seen - 1, std::memory_order_acquire,
                                       std::memory_order_relaxed)) {
        return true;
      }
    }
    return false;
  }

  void begin_look() noexcept {
    // relaxed: pairs with the load in must_wake(): a thread that sees it late wakes one in vain; a
    // thread that sees it is seen in end_look().
    looking_.fetch_add(1, std::memory_order_relaxed);
  }
  /// After having found something, or nothing. true: the caller has to wake a sleeper.
  [[nodiscard]] bool end_look() noexcept {
    // seq_cst: pairs with the load in must_wake(): a thread that found this one looking has added
    // before, and is seen below.
    looking_.fetch_sub(1, std::memory_order_seq_cst);
    return more();
  }
  /// After having taken one without looking, as a woken worker does: there may be more for which
  /// nobody was woken. true: the caller has to wake a sleeper.
  [[nodiscard]] bool more() const noexcept {
    // seq_cst: pairs with the addition in add(), as in end_look().
    return ready_.load(std::memory_order_seq_cst) != 0 && must_wake();
  }

  /// Counts a sleeper, which can be woken from here on. false: something is ready; it has to take
  /// itself back with wake().
  [[nodiscard]] bool sleep(SleeperFlag<Env>& flag) noexcept {
    // seq_cst: pairs with the load in must_wake(): a thread that adds sees the sleeper, or the
    // sleeper the addition.
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    flag.raise();
    return ready_.load(std::memory_order_seq_cst) == 0;  // seq_cst: as above
  }
  /// Takes a sleeper off the count; false: it was taken off, or does not sleep. true: the caller
  /// wakes it, if it is not the sleeper itself.
  [[nodiscard]] bool wake(SleeperFlag<Env>& flag) noexcept {
    if (!flag.lower()) return false;
    // relaxed: a thread that reads too many looks for one in vain.
    sleepers_.fetch_sub(1, std::memory_order_relaxed);
    return true;
  }

  [[nodiscard]] bool empty() const noexcept {
    // seq_cst: pairs with the addition in add(): a pool whose descriptor was opened, or that is
    // stopped, finds what was added by threads that did not see that yet.
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
