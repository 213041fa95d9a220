// heddle's scheduler in the shape of the limits and rivals: one device, one pinned worker.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "heddle/backend.hpp"
#include "heddle/scheduler.hpp"
#include "tools/bench/harness.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {

/// A device whose worker runs on the k-th processor. The host must not be bound to a different
/// processor.
[[nodiscard]] inline sched::TaskDevice open_pinned(
    Scheduler& scheduler, int k, std::optional<std::chrono::nanoseconds> spin = {},
    std::optional<std::uint32_t> queue_size = {}) {
  sched::DeviceOptions options{.name = "bench", .queue_size = queue_size, .spin = spin};
  options.processor =
      static_cast<unsigned>(processors()[static_cast<std::size_t>(k) % processors().size()]);
  return scheduler.new_device(options);
}

/// Each device has a thread on the worker's processor.
[[nodiscard]] inline Backend open_on_worker() {
  BackendOptions options;
  options.name = "cc";
  options.mode = sched::Mode::threaded;
  options.scheduling.device.processor = static_cast<unsigned>(
      processors()[static_cast<std::size_t>(worker_processor) % processors().size()]);
  return Backend::open(options);
}

/// Each device has a thread, placed by the system.
[[nodiscard]] inline Backend open_on_all() {
  BackendOptions options;
  options.name = "cc";
  options.mode = sched::Mode::threaded;
  return Backend::open(options);
}

/// The k-th physical device is the k-th processor, and threads of its devices are bound to that
/// processor: threads that wait for one another repeatedly must not share a processor, as happens
/// under the system's placement now and then.
[[nodiscard]] inline Backend open_bound() {
  BackendOptions options;
  options.name = "cc";
  options.mode = sched::Mode::threaded;
  options.scheduling.pin_workers = true;
  return Backend::open(options);
}

/// A device of the k-th processor, modulo the number of processors.
[[nodiscard]] inline Device new_bound_device(const Backend& backend, std::int64_t k) {
  const auto processors = static_cast<std::int64_t>(backend.num_physical_devices());
  return backend.physical_device(static_cast<int>(k % processors)).new_virtual_device();
}

class HeddleWorker {
 public:
  static constexpr const char* name = "heddle";
  static constexpr Kind kind = Kind::heddle;

  /// `spin`: how long the worker stays awake without work; default: heddle's.
  explicit HeddleWorker(int k, std::optional<std::chrono::nanoseconds> spin = {})
      : device_(open_pinned(scheduler_, k, spin)) {}
  HeddleWorker(int k, std::uint32_t queue_size)
      : device_(open_pinned(scheduler_, k, {}, queue_size)) {}

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

/// The host keeps each task's event, and waits for the last.
class KeptHeddleWorker : public HeddleWorker {
 public:
  using HeddleWorker::HeddleWorker;

  template <class F>
  void submit(F f) {
    last_ = device().submit("task", std::move(f));
  }
  void wait_ended(std::uint64_t /*count*/) const { throw_if_failed(last_.wait()); }

 private:
  Event last_;
};

/// Stays awake between two tasks, however long the host takes.
class AwakeHeddleWorker : public HeddleWorker {
 public:
  explicit AwakeHeddleWorker(int k) : HeddleWorker(k, std::chrono::seconds(1)) {}
};

/// Sleeps as soon as the queue is empty.
class SleepyHeddleWorker : public HeddleWorker {
 public:
  explicit SleepyHeddleWorker(int k) : HeddleWorker(k, std::chrono::nanoseconds(0)) {}
};

}  // namespace heddle::bench
