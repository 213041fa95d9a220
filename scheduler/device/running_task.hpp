// RunningTask: what a device's consumer is at, for people. The consumer writes it; any thread
// reads.
#pragma once

#include <atomic>
#include <cstdint>

#include "heddle/scheduler.hpp"
#include "scheduler/device/identity.hpp"

namespace heddle::sched {

class RunningTask {
 public:
  /// A task that runs.
  void run(const char* label) noexcept {
    // relaxed: pairs with the load in label(): for people, ordering nothing.
    label_.store(label, std::memory_order_relaxed);
  }
  /// A task that does not run yet, and the end of that look.
  void begin_look(const char* label) noexcept {
    run(label);
    set_looking(true);
  }
  void end_look() noexcept { set_looking(false); }
  /// No task runs.
  void rest() noexcept { run(nullptr); }
  /// When tasks begin, roughly: a clock that costs little, read now and then.
  void note_time(const Identity& device) noexcept;

  /// The label of the task that the consumer is at; "" when none.
  [[nodiscard]] const char* label() const noexcept {
    // relaxed: pairs with the store in run(); inside the task it is its own.
    const char* const text = label_.load(std::memory_order_relaxed);
    return text != nullptr ? text : "";
  }
  /// For the snapshot of a device that has tasks.
  void show(Snapshot& snapshot) const;

 private:
  void set_looking(bool looking) noexcept {
    // relaxed: pairs with the load in show(), for people.
    looking_.store(looking, std::memory_order_relaxed);
  }

  std::atomic<const char*> label_{nullptr};
  std::atomic<bool> looking_{false};  // at that task, which does not run yet
  std::atomic<std::int64_t> clock_ns_{0};
};

}  // namespace heddle::sched
