// What tests of tasks that end later than they return share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {

/// Completions of tasks that have begun, in their order. Any thread.
class Begun {
 public:
  /// A task that leaves its sched::Completion here.
  [[nodiscard]] auto task() {
    return [this](sched::Completion completion) { put(std::move(completion)); };
  }
  void put(sched::Completion completion) {
    const std::lock_guard lock(mutex_);
    completions_.push_back(std::move(completion));
  }
  [[nodiscard]] std::size_t count() const {
    const std::lock_guard lock(mutex_);
    return completions_.size();
  }
  [[nodiscard]] sched::Completion take(std::size_t at) {
    const std::lock_guard lock(mutex_);
    return std::move(completions_.at(at));
  }
  Status end(std::size_t at, Status status = {}) { return take(at).end(std::move(status)); }

 private:
  mutable std::mutex mutex_;
  std::vector<sched::Completion> completions_;
};

class AsyncTaskTest : public DeviceTest {
 protected:
  sched::TaskDevice open_async(std::string name, std::uint32_t in_flight = 4) {
    sched::DeviceOptions o = options(std::move(name));
    o.in_flight = in_flight;
    return scheduler_.new_device(o);
  }
  /// Until `done()`; others may do it.
  template <class Done>
  void until(const Done& done) {
    while (!done()) {
      run_ready();
      std::this_thread::yield();
    }
  }
  void until_begun(const Begun& begun, std::size_t count) {
    until([&] { return begun.count() == count; });
  }
};

}  // namespace heddle
