// Health: what submissions and tasks of a device have to be looked at for: poison and cancels.
// Producers and the consumer read it on their fast paths, without a lock. A thread that changes it
// holds the lock that guards the reasons (Control's), so a thread that finds a flag raised and
// takes that lock comes after the one that raised it, and finds why. Hence most is relaxed: that
// lock orders it, and what the reader has seen before (a ticket that has ended, or was published)
// makes it new enough.
//
//   the task of a ticket fails (consumer)      recover()
//   locked: reason, poison()                   waits until what is queued has ended
//   completed = ticket                         locked, still poisoned, same epoch: no reason,
//                                              heal()
//   a thread that awaits it sees the poison    what is submitted after it runs
#pragma once

#include <cstdint>

#include "scheduler/atomic.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class Health {
 public:
  /// Whether submissions are plain, and tasks have to be looked at, as long as all is well.
  Health(bool plain_usually, bool careful_usually) noexcept
      : plain_usually_(plain_usually),
        careful_usually_(careful_usually),
        plain_(plain_usually ? 1 : 0),
        careful_(careful_usually) {}

  /// Submissions without options need no second look. Any thread.
  /// 0 or 1: compared as it is, it costs three instructions less than a bool.
  [[nodiscard]] std::uint8_t plain() const noexcept {
    // acquire: pairs with the release in poison(): the second look finds the poison.
    return plain_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool poisoned() const noexcept {
    // relaxed: pairs with the stores in poison() and heal(); why is read under the lock.
    return poisoned_.load(std::memory_order_relaxed);
  }

  // The consumer.

  /// Tasks have to be looked at before they run.
  [[nodiscard]] bool careful() const noexcept {
    // relaxed: pairs with the store in cancel(), and the lock, which the consumer takes next (for
    // settle()), orders what that wrote before; a poison is the consumer's own.
    return careful_.load(std::memory_order_relaxed);
  }
  [[nodiscard]] bool cancelled(std::uint64_t ticket) const noexcept {
    // relaxed: pairs with the store in cancel(), by the lock, as in careful().
    return ticket <= cancelled_upto_.load(std::memory_order_relaxed);
  }

  // With the lock held.

  /// The consumer, before it completes the ticket that failed.
  void poison() noexcept {
    // relaxed: pairs with the load in poisoned(); the next store carries it.
    poisoned_.store(true, std::memory_order_relaxed);
    // release: pairs with the acquire in plain().
    plain_.store(0, std::memory_order_release);
    // relaxed: pairs with the load in careful(), by the consumer too.
    careful_.store(true, std::memory_order_relaxed);
  }
  /// Any thread, after the reasons are cleared. What is queued from here on runs.
  void heal() noexcept {
    // relaxed, both: pair with the loads in poisoned() and plain(). A thread that still finds the
    // device poisoned takes the lock, where there is no reason any more.
    poisoned_.store(false, std::memory_order_relaxed);
    plain_.store(plain_usually_ ? 1 : 0, std::memory_order_relaxed);
  }
  /// Tickets up to this one are not begun, once the consumer looks. Any thread.
  void cancel(std::uint64_t upto) noexcept {
    // relaxed, both: pair with the loads in cancelled() and careful(), by the lock.
    cancelled_upto_.store(upto, std::memory_order_relaxed);
    careful_.store(true, std::memory_order_relaxed);
  }
  /// Up to `completed` all have ended: careful no longer, if there is nothing to look for. The
  /// consumer, which then looks at the next one.
  void settle(std::uint64_t completed) noexcept {
    // relaxed, both: the lock orders them.
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
