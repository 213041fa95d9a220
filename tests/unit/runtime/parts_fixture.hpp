// What tests of kernels in parts share: each mode, and a kernel that notes what its parts are
// given.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "devices/device.hpp"
#include "heddle/heddle.hpp"
#include "heddle/simulation.hpp"
#include "jit/code/core.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/launch/parts.hpp"
#include "scheduler/device/helpers.hpp"
#include "scheduler/modes/opening.hpp"
#include "tests/support/before_long.hpp"

namespace heddle::rt {

/// What the parts of a kernel were given, in the order in which they began.
struct GivenParts {
  struct One {
    std::uint32_t part, of;
    void* scratch;
    std::thread::id thread;
  };
  std::mutex mutex;
  std::vector<One> all;
  std::multiset<void*> scratch_in_use;
  bool met = false;  ///< two parts had the same scratch at once
  /// Called in each part: what it says.
  std::function<heddle_kernel_status(std::uint32_t part)> each{};

  [[nodiscard]] std::size_t size() {
    const std::lock_guard lock(mutex);
    return all.size();
  }
  [[nodiscard]] std::vector<std::uint32_t> order() const {
    std::vector<std::uint32_t> parts;
    for (const One& one : all) parts.push_back(one.part);
    return parts;
  }
  [[nodiscard]] std::set<void*> scratch() const {
    std::set<void*> found;
    for (const One& one : all) found.insert(one.scratch);
    return found;
  }
  [[nodiscard]] std::set<std::thread::id> threads() const {
    std::set<std::thread::id> found;
    for (const One& one : all) found.insert(one.thread);
    return found;
  }
  /// Each of `parts`, once.
  [[nodiscard]] bool are_whole(std::uint32_t parts) const {
    std::vector<std::uint32_t> sorted = order();
    std::ranges::sort(sorted);
    for (std::uint32_t k = 0; k < sorted.size(); ++k) {
      if (sorted[k] != k || all[k].of != parts) return false;
    }
    return sorted.size() == parts;
  }
};

/// A kernel whose first buffer is a GivenParts, and whose second one is scratch.
struct NotingKernel final : dev::Module {
  [[nodiscard]] heddle_kernel_function host_function(std::size_t) const noexcept override {
    return [](const heddle_kernel_args* args) {
      GivenParts& to = *static_cast<GivenParts*>(args->buffers[0].data);
      void* const scratch = args->buffers[1].data;
      {
        const std::lock_guard lock(to.mutex);
        to.all.push_back({args->part, args->num_parts, scratch, std::this_thread::get_id()});
        to.scratch_in_use.insert(scratch);
        if (to.scratch_in_use.count(scratch) > 1) to.met = true;
      }
      if (to.each) *args->status = to.each(args->part);
      const std::lock_guard lock(to.mutex);
      to.scratch_in_use.erase(to.scratch_in_use.find(scratch));
    };
  }
};

/// Launches of that kernel in tasks of a device of a scheduler.
class PartsLaunch {
 public:
  PartsLaunch(Scheduler& scheduler, sched::Mode mode)
      : device(scheduler.new_device(options_of(mode))) {
    execution.helpers = sched::Opening::helpers_of(scheduler);
    execution.helpers->prepare();
    execution.width = execution.helpers->width();
    if (mode != sched::Mode::manual && mode != sched::Mode::simulated) execution.helpers->start();
  }
  /// In a task: what the kernel said.
  heddle_kernel_status launch(std::uint32_t parts, bool looks_at_stop) {
    jit::KernelStep step;
    step.parts = parts;
    step.own = {{1, 16}};
    step.own_bytes = 64;
    step.looks_at_stop = looks_at_stop;
    heddle_kernel_buffer buffers[2]{{&given, sizeof given}, {first, sizeof first}};
    heddle_kernel_status says{};
    heddle_kernel_args args{};
    args.buffers = buffers;
    args.num_buffers = 2;
    args.num_parts = 1;
    args.status = &says;
    launch_in_parts(execution, kernel, 0, args, step, others);
    return says;
  }
  Event submit(std::uint32_t parts, bool looks_at_stop = false) {
    return device.submit("kernel",
                         [this, parts, looks_at_stop] { said = launch(parts, looks_at_stop); });
  }

  const NotingKernel kernel;
  Execution execution;
  GivenParts given;
  heddle_kernel_status said{};
  std::byte first[64], others[64 * sched::width_max];
  sched::TaskDevice device;

 private:
  static sched::DeviceOptions options_of(sched::Mode mode) {
    sched::DeviceOptions options;
    options.name = "work";
    options.mode = mode;
    return options;
  }
};

inline std::string name_of(sched::Mode mode) {
  switch (mode) {
    case sched::Mode::threaded:
      return "threaded";
    case sched::Mode::pooled:
      return "pooled";
    case sched::Mode::inline_:
      return "inlined";
    case sched::Mode::manual:
      return "manual";
    case sched::Mode::simulated:
      break;
  }
  return "simulated";
}

/// So wide, whatever the machine, with a pool that has a worker for each.
inline SchedulerOptions of_width(unsigned width) {
  SchedulerOptions options;
  options.name = "host";
  options.width = width;
  options.oversubscribed = true;
  options.workers = width;
  return options;
}

}  // namespace heddle::rt
