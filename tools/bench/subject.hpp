// heddle's scheduler in the shape of the limits and rivals: one device, one pinned worker.
#pragma once

#include <chrono>
#include <optional>
#include <utility>

#include "heddle/scheduler.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {

class HeddleWorker {
 public:
  static constexpr const char* name = "heddle";

  /// `spin`: how long the worker stays awake without work; the default of heddle unless given.
  explicit HeddleWorker(int k, std::optional<std::chrono::nanoseconds> spin = {})
      : device_(scheduler_.new_device({.name = "bench", .spin = spin})) {
    device_.submit("pin", [k] { pin_this_thread(k); }).wait();
  }

  template <class F>
  void submit(F f) {
    device_.submit("task", std::move(f));
  }
  void wait_idle() const { device_.await(); }
  template <class F>
  void run_and_wait(F f) {
    device_.submit("task", std::move(f)).wait();
  }
  [[nodiscard]] const sched::Device& device() const { return device_; }

 private:
  Scheduler scheduler_;
  sched::Device device_;
};

}  // namespace heddle::bench
