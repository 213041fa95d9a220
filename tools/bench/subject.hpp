// heddle's scheduler in the shape of the limits and rivals: one device, one pinned worker.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "heddle/scheduler.hpp"
#include "tools/bench/harness.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {

/// A device whose worker runs on the k-th processor. The host must not be bound to another.
[[nodiscard]] inline sched::TaskDevice open_pinned(
    Scheduler& scheduler, int k, std::optional<std::chrono::nanoseconds> spin = {}) {
  sched::DeviceOptions options{.name = "bench", .spin = spin};
  options.processor =
      static_cast<unsigned>(processors()[static_cast<std::size_t>(k) % processors().size()]);
  return scheduler.new_device(options);
}

class HeddleWorker {
 public:
  static constexpr const char* name = "heddle";
  static constexpr Kind kind = Kind::heddle;

  /// `spin`: how long the worker stays awake without work; the default of heddle unless given.
  explicit HeddleWorker(int k, std::optional<std::chrono::nanoseconds> spin = {})
      : device_(open_pinned(scheduler_, k, spin)) {}

  template <class F>
  void submit(F f) {
    device_.submit("task", std::move(f));
  }
  void wait_ended(std::uint64_t /*count*/) const { throw_if_failed(device_.await()); }
  template <class F>
  void run_and_wait(F f) {
    device_.submit("task", std::move(f)).wait();
  }
  [[nodiscard]] const sched::TaskDevice& device() const { return device_; }

 private:
  Scheduler scheduler_;
  sched::TaskDevice device_;
};

/// Stays awake between two tasks, however long the host takes.
class AwakeHeddleWorker : public HeddleWorker {
 public:
  explicit AwakeHeddleWorker(int k) : HeddleWorker(k, std::chrono::seconds(1)) {}
};

/// Sleeps as soon as it has nothing to do.
class SleepyHeddleWorker : public HeddleWorker {
 public:
  explicit SleepyHeddleWorker(int k) : HeddleWorker(k, std::chrono::nanoseconds(0)) {}
};

}  // namespace heddle::bench
