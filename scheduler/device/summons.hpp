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
    // relaxed: pairs with the count in wake(): a statistic.
    return wakes_.load(std::memory_order_relaxed);
  }

  // For the worker, out of work. The worker calls about_to_sleep(), looks once more, and then calls
  // sleep(), or stay_up(), which takes about_to_sleep() back.

  void about_to_sleep() noexcept { doorbell_.park(); }
  void sleep() noexcept { parker_.park(); }
  void stay_up() noexcept { doorbell_.unpark(); }

  // Turns.

  /// Called when the consumer finds no task. `known`: the number of requests that the consumer
  /// knows of, 1 at the begin of a turn. true: the turn is over. false: there are more requests,
  /// `known` is now their number, and the consumer must look again.
  [[nodiscard]] bool end_turn(std::uint64_t& known) noexcept { return turns_.end(known); }
  /// Ends a requested turn that did not run. A later look() requests a turn again.
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
  /// Raises the flag of a postponed look. true: the caller must later call put_on(), and then look.
  [[nodiscard]] bool put_off() noexcept {
    // acq_rel: pairs with put_on(). If the flag was raised already, the thread that raised it will
    // look after this call.
    return !put_off_.exchange(true, std::memory_order_acq_rel);
  }
  void put_on() noexcept {
    // acq_rel: both pair with the exchange in put_off(). A thread that found the flag raised came
    // before this exchange: the following look sees what that thread did, such as the end of an
    // event.
    put_off_.exchange(false, std::memory_order_acq_rel);
  }

 private:
  void wake() noexcept;

  Doorbell<> doorbell_;
  Turns<> turns_;
  ReadyLink ready_link_;  // beside turns_: a thread that asks for a turn has fetched that line
  const Identity& device_;
  std::atomic<std::uint64_t> wakes_{0};
  Parker parker_;
  std::atomic<bool> put_off_{false};
  std::shared_ptr<DeviceCore> next_ready_;
};

}  // namespace heddle::sched
