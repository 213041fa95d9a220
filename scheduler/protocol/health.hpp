// Health: the reasons why submissions and tasks of a device need checks: poison and cancels.
// Producers and the consumer read the flags on their fast paths, without a lock. A thread that
// changes a flag holds the lock that guards the reasons (Control's). A thread that finds a flag
// raised and takes that lock hence comes after the thread that raised the flag, and finds the
// reason. Most accesses are therefore relaxed: the lock orders them, and the reader's earlier
// observation (of a ticket that has ended, or was published) makes the value recent enough.
//
//   the task of a ticket fails (consumer)      recover()
//   locked: reason, poison()                   waits until the queued tasks have ended
//   completed = ticket                         locked, still poisoned, same epoch: no reason,
//                                              heal()
//   a thread that awaits it sees the poison    tasks submitted afterwards run
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Health {
 public:
  /// The healthy state: whether submissions take the fast path (`plain`), and whether tasks need a
  /// check (`careful`).
  Health(bool plain_usually, bool careful_usually) noexcept
      : plain_usually_(plain_usually),
        careful_usually_(careful_usually),
        plain_(plain_usually ? 1 : 0),
        careful_(careful_usually) {}

  /// Submissions without options need no further check. Any thread. 0 or 1: used as is, the value
  /// costs three instructions less than a bool.
  [[nodiscard]] std::uint8_t plain() const noexcept {
    // acquire: pairs with the release in poison(): the further check finds the poison.
    return plain_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool poisoned() const noexcept {
    // relaxed: pairs with the stores in poison() and heal(); the reason is read under the lock.
    return poisoned_.load(std::memory_order_relaxed);
  }

  // Called by the consumer.

  /// Tasks need a check before they run.
  [[nodiscard]] bool careful() const noexcept {
    // relaxed: pairs with the store in cancel(); the lock, which the consumer takes next (for
    // settle()), orders the earlier writes of the canceller. A poison is the consumer's own write.
    return careful_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool cancelled(std::uint64_t ticket) const noexcept {
    // relaxed: pairs with the store in cancel(), by the lock, as in careful().
    return ticket <= cancelled_upto_.load(std::memory_order_relaxed);
  }

  // Called with the lock held.

  /// Called by the consumer, before it completes the failed ticket.
  void poison() noexcept {
    // relaxed: pairs with the load in poisoned(); the next store publishes the flag.
    poisoned_.store(true, std::memory_order_relaxed);
    // release: pairs with the acquire in plain().
    plain_.store(0, std::memory_order_release);
    // relaxed: pairs with the load in careful(), by the consumer too.
    careful_.store(true, std::memory_order_relaxed);
  }
  /// Called after the reasons are cleared. Tasks queued from here on run. Any thread.
  void heal() noexcept {
    // relaxed, twice: pair with the loads in poisoned() and plain(). A thread that still finds the
    // device poisoned takes the lock, and finds no reason any more.
    poisoned_.store(false, std::memory_order_relaxed);
    plain_.store(plain_usually_ ? 1 : 0, std::memory_order_relaxed);
  }
  /// Tickets up to `upto` do not begin, once the consumer looks. Any thread.
  void cancel(std::uint64_t upto) noexcept {
    // relaxed, twice: pair with the loads in cancelled() and careful(), by the lock.
    cancelled_upto_.store(upto, std::memory_order_relaxed);
    careful_.store(true, std::memory_order_relaxed);
  }
  /// Every ticket up to `completed` has ended: the device is no longer careful if no reason is
  /// left. Called by the consumer, which then looks at the next ticket.
  void settle(std::uint64_t completed) noexcept {
    // relaxed, twice: the lock orders the loads.
    if (completed >= cancelled_upto_.load(std::memory_order_relaxed) &&
        !poisoned_.load(std::memory_order_relaxed)) {
      // relaxed: pairs with the load in careful(), by the consumer too.
      careful_.store(careful_usually_, std::memory_order_relaxed);
    }
  }

 private:
  const bool plain_usually_;
  const bool careful_usually_;
  typename Env::template atomic<std::uint8_t> plain_;
  typename Env::template atomic<bool> poisoned_{false};
  typename Env::template atomic<bool> careful_;
  typename Env::template atomic<std::uint64_t> cancelled_upto_{0};
};

}  // namespace heddle::sched
