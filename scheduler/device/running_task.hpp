// RunningTask: the current task of a device's consumer, for snapshots. The consumer writes; any
// thread reads.
#pragma once

#include <atomic>
#include <cstdint>

#include "heddle/scheduler.hpp"
#include "scheduler/device/identity.hpp"

namespace heddle::sched {

class RunningTask {
 public:
  /// A task runs.
  void run(const char* label) noexcept {
    // relaxed: pairs with the load in label(): a text for snapshots, ordering no memory.
    label_.store(label, std::memory_order_relaxed);
  }
  /// The consumer looks at a task that does not run yet; end_look(): the look ends.
  void begin_look(const char* label) noexcept {
    run(label);
    set_looking(true);
  }
  void end_look() noexcept { set_looking(false); }
  /// No task runs.
  void rest() noexcept { run(nullptr); }
  /// Notes when tasks begin, roughly: reads a cheap clock now and then.
  void note_time(const Identity& device) noexcept;

  /// The label of the consumer's current task; "" without one.
  [[nodiscard]] const char* label() const noexcept {
    // relaxed: pairs with the store in run(); a task reads the store of its own thread.
    const char* const text = label_.load(std::memory_order_relaxed);
    return text != nullptr ? text : "";
  }
  /// For the snapshot of a device that has tasks.
  void show(Snapshot& snapshot) const;

 private:
  void set_looking(bool looking) noexcept {
    // relaxed: pairs with the load in show(), for snapshots.
    looking_.store(looking, std::memory_order_relaxed);
  }

  std::atomic<const char*> label_{nullptr};
  std::atomic<bool> looking_{false};  // the task does not run yet
  std::atomic<std::int64_t> clock_ns_{0};
};

}  // namespace heddle::sched
