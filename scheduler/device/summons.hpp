// Summons: how a device's consumer is called to work: its own worker is woken, or its runner is
// asked for a turn. Any thread, unless said otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "scheduler/device/identity.hpp"
#include "scheduler/protocol/doorbell.hpp"
#include "scheduler/protocol/turns.hpp"
#include "scheduler/threads/parker.hpp"
#include "scheduler/threads/ready.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

class alignas(tuning::line_bytes) Summons {
 public:
  explicit Summons(const Identity& device) noexcept
      : doorbell_(device.runner != nullptr), device_(device) {}

  /// After a task was published.
  void call() noexcept {
    if (!quiet()) [[unlikely]]
      call_closely();
  }
  /// call() in two parts.
  [[nodiscard]] bool quiet() const noexcept { return doorbell_.quiet(); }
  void call_closely() noexcept;
  /// For a consumer without a thread: something may have changed, and it will look after this.
  void look() noexcept {
    if (turns_.ask()) device_.runner->run(device_.core);
  }
  /// For a consumer with one: it looks again, from its sleep if need be.
  void rouse() noexcept {
    if (doorbell_.ring()) wake();
  }
  [[nodiscard]] std::uint64_t wakes() const noexcept {
    // relaxed: pairs with the count in wake(): a number for people.
    return wakes_.load(std::memory_order_relaxed);
  }

  // The worker, out of work. It looks once more between the first two of these, and then sleeps or
  // takes the first back.

  void about_to_sleep() noexcept { doorbell_.park(); }
  void sleep() noexcept { parker_.park(); }
  void stay_up() noexcept { doorbell_.unpark(); }

  // Turns.

  /// The consumer found nothing. true: its turn is over; false: it has to look again, as `known`
  /// requests, 1 at first, have become more.
  [[nodiscard]] bool end_turn(std::uint64_t& known) noexcept { return turns_.end(known); }
  /// Instead of a turn that was to be seen to: others will ask for one.
  void give_turn_back() noexcept {
    std::uint64_t known = 1;
    while (!turns_.end(known)) {
    }
  }
  /// By which the device waits for a turn in a pool; belongs to the thread that sees to it.
  [[nodiscard]] ReadyLink& ready_link() noexcept { return ready_link_; }
  /// Links devices that wait for a turn on one thread; belongs to that thread.
  [[nodiscard]] std::shared_ptr<DeviceCore>& next_ready() noexcept { return next_ready_; }
  /// true: the caller puts a look off, and calls put_on() before it looks.
  [[nodiscard]] bool put_off() noexcept {
    // acq_rel: pairs with the release in put_on(). If it is still raised, the thread that raised it
    // looks after this.
    return !put_off_.exchange(true, std::memory_order_acq_rel);
  }
  void put_on() noexcept {
    // acq_rel: release pairs with the exchange in put_off(); acquire: a thread that found it raised
    // came before, so this look sees the event done.
    put_off_.exchange(false, std::memory_order_acq_rel);
  }

 private:
  void wake() noexcept;

  Doorbell<> doorbell_;
  Turns<> turns_;
  ReadyLink ready_link_;  // a thread that asks for a turn has the line before
  const Identity& device_;
  std::atomic<std::uint64_t> wakes_{0};
  Parker parker_;
  std::atomic<bool> put_off_{false};
  std::shared_ptr<DeviceCore> next_ready_;
};

}  // namespace heddle::sched
