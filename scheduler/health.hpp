// Health: what submissions and tasks of a device have to be looked at for: poison and cancels.
// Producers and the consumer read it on their fast paths, without a lock. Who changes it holds the
// lock that guards the reasons (DeviceCore's control_), so who finds a flag raised and takes that
// lock finds why.
//
//   the task of a ticket fails (consumer)      recover()
//   locked: reason, poison()                   waits until what is queued has ended
//   completed = ticket                         locked, still poisoned, same epoch: no reason,
//   heal() who awaits it: sees the poison             who submits after it: runs
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
    // acquire: pairs with the releases in poison() and heal(): the second look finds the poison.
    return plain_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool poisoned() const noexcept {
    // acquire: pairs with the releases in poison() and heal().
    return poisoned_.load(std::memory_order_acquire);
  }

  // The consumer.

  /// Tasks have to be looked at before they run.
  [[nodiscard]] bool careful() const noexcept {
    // acquire: pairs with the release in cancel(); a poison is the consumer's own.
    return careful_.load(std::memory_order_acquire);
  }
  [[nodiscard]] bool cancelled(std::uint64_t ticket) const noexcept {
    // acquire: pairs with the release in cancel().
    return ticket <= cancelled_upto_.load(std::memory_order_acquire);
  }
  /// How often cancel() was called.
  [[nodiscard]] std::uint64_t cancels() const noexcept {
    // acquire: pairs with the release in cancel().
    return cancels_.load(std::memory_order_acquire);
  }

  // With the lock held.

  /// The consumer, before it completes the ticket that failed.
  void poison() noexcept {
    // release: pairs with the acquire in poisoned().
    poisoned_.store(true, std::memory_order_release);
    // release: pairs with the acquire in plain().
    plain_.store(0, std::memory_order_release);
    // relaxed: pairs with the load in careful(), by the consumer too.
    careful_.store(true, std::memory_order_relaxed);
  }
  /// Any thread, after the reasons are cleared. What is queued from here on runs.
  void heal() noexcept {
    // release: pairs with the acquire in poisoned().
    poisoned_.store(false, std::memory_order_release);
    // release: pairs with the acquire in plain().
    plain_.store(plain_usually_ ? 1 : 0, std::memory_order_release);
  }
  /// Tickets up to this one are not begun, once the consumer looks. Any thread.
  void cancel(std::uint64_t upto) noexcept {
    // release: pairs with the acquire in cancelled().
    cancelled_upto_.store(upto, std::memory_order_release);
    // release: pairs with the acquire in cancels().
    cancels_.fetch_add(1, std::memory_order_release);
    // release: pairs with the acquire in careful().
    careful_.store(true, std::memory_order_release);
  }
  /// The consumer looked after `cancels` cancels, and `completed` have ended: careful no longer, if
  /// there is nothing to look for.
  void settle(std::uint64_t cancels, std::uint64_t completed) noexcept {
    // relaxed, all: the lock orders them.
    if (cancels == cancels_.load(std::memory_order_relaxed) &&
        completed >= cancelled_upto_.load(std::memory_order_relaxed) &&
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
  typename Env::template atomic<std::uint64_t> cancels_{0};
};

}  // namespace heddle::sched
