// Summons: calls a device's consumer to work: wakes the device's own worker, or asks its runner for
// a turn. Any thread, unless said otherwise.
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

  /// Called after a task was published.
  void call() noexcept {
    if (!quiet()) [[unlikely]]
      call_closely();
  }
  /// call() in two parts.
  [[nodiscard]] bool quiet() const noexcept { return doorbell_.quiet(); }
  void call_closely() noexcept;
  /// For a consumer without its own thread: its inputs may have changed, and the consumer looks
  /// after this call.
  void look() noexcept {
    if (turns_.ask()) device_.runner->run(device_.core);
  }
  /// For a consumer with its own thread: the consumer looks again, and wakes if it sleeps.
  void rouse() noexcept {
    if (doorbell_.ring()) wake();
  }
  [[nodiscard]] std::uint64_t wakes() const noexcept {
    // relaxed: pairs with the count in wake(): a number for people.
    return wakes_.load(std::memory_order_relaxed);
  }

  // For the worker, out of work. The worker calls about_to_sleep(), looks once more, and then calls
  // sleep(), or stay_up(), which takes about_to_sleep() back.

  void about_to_sleep() noexcept { doorbell_.park(); }
  void sleep() noexcept { parker_.park(); }
  void stay_up() noexcept { doorbell_.unpark(); }

  // Turns.

  /// The consumer found no task. true: its turn is over; false: the consumer must look again,
  /// because the number of requests, `known` (1 at first), has grown.
  [[nodiscard]] bool end_turn(std::uint64_t& known) noexcept { return turns_.end(known); }
  /// Ends a requested turn without running it: other threads will request the turn.
  void give_turn_back() noexcept {
    std::uint64_t known = 1;
    while (!turns_.end(known)) {
    }
  }
  /// The link by which the device waits for a turn in a pool; owned by the thread that arranges the
  /// turn.
  [[nodiscard]] ReadyLink& ready_link() noexcept { return ready_link_; }
  /// Links devices waiting for a turn on a thread; owned by that thread.
  [[nodiscard]] std::shared_ptr<DeviceCore>& next_ready() noexcept { return next_ready_; }
  /// true: the caller postpones a look, and calls put_on() before the look.
  [[nodiscard]] bool put_off() noexcept {
    // acq_rel: pairs with the release in put_on(). If the flag is still raised, the raising thread
    // looks after this call.
    return !put_off_.exchange(true, std::memory_order_acq_rel);
  }
  void put_on() noexcept {
    // acq_rel: release pairs with the exchange in put_off(); acquire: a thread that found the flag
    // raised came before: the following look sees the event done.
    put_off_.exchange(false, std::memory_order_acq_rel);
  }

 private:
  void wake() noexcept;

  Doorbell<> doorbell_;
  Turns<> turns_;
  ReadyLink ready_link_;  // a thread that asks for a turn has already fetched the previous line
  const Identity& device_;
  std::atomic<std::uint64_t> wakes_{0};
  Parker parker_;
  std::atomic<bool> put_off_{false};
  std::shared_ptr<DeviceCore> next_ready_;
};

}  // namespace heddle::sched
