// Many devices that share few workers, against devices with a thread each. The host submits one
// task to each device in turn: every task makes its device ready anew, unless the device is still
// ready.
#include <vector>

#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/subject.hpp"

namespace heddle::bench {
namespace {

constexpr std::size_t pooled_devices = 64;
constexpr unsigned pool_workers = 2;

/// Devices and the number of tasks that each has run.
class Devices {
 public:
  Devices(std::size_t count, sched::Mode mode) : scheduler_(pool()), ran_(count) {
    const Unpinned while_opening;
    for (std::size_t k = 0; k < count; ++k) {
      devices_.push_back(mode == sched::Mode::pooled
                             ? open_pooled()
                             : open_pinned(scheduler_, spread_processor(static_cast<int>(k))));
    }
  }
  /// Submits tasks to the devices in turn; returns when all have run.
  void run(std::size_t tasks) {
    for (std::size_t k = 0; k < tasks; ++k) {
      const std::size_t at = k % devices_.size();
      devices_[at].submit("task", [&ran = ran_[at].count] { ++ran; });
    }
    for (const sched::TaskDevice& device : devices_) throw_if_failed(device.await());
    submitted_ += tasks;
  }
  void require_all_ran() const {
    std::uint64_t ran = 0;
    for (const Count& count : ran_) ran += count.count;
    bench::require_all_ran("heddle", ran, submitted_);
  }

 private:
  struct alignas(64) Count {
    std::uint64_t count = 0;
  };
  static SchedulerOptions pool() {
    SchedulerOptions options;
    options.workers = pool_workers;
    options.pin_workers = true;
    return options;
  }

  sched::TaskDevice open_pooled() {
    sched::DeviceOptions options;
    options.mode = sched::Mode::pooled;
    return scheduler_.new_device(options);
  }

  Scheduler scheduler_;
  std::vector<Count> ran_;  // one count per device
  std::vector<sched::TaskDevice> devices_;
  std::uint64_t submitted_ = 0;
};

Contender pooled_contender(const char* name, std::size_t count, sched::Mode mode) {
  return {name, Kind::heddle, [count, mode](nanoseconds length, Samples& samples) {
            constexpr std::size_t batch = 64 * 256;
            Devices devices(count, mode);
            devices.run(count);
            const double ns = timed_loop(length, batch, [&](std::size_t tasks) {
              const auto start = Clock::now();
              devices.run(tasks);
              samples.add(ns_between(start, Clock::now()) / static_cast<double>(tasks));
            });
            devices.require_all_ran();
            return ns;
          }};
}

}  // namespace

void add_pooled_rows(std::vector<Row>& rows) {
  using sched::Mode;
  Against against(rows, {"pooled",
                         "pooled, 64 devices",
                         "task",
                         pooled_contender("heddle, 2 workers", pooled_devices, Mode::pooled),
                         {}});
  against(pooled_contender("heddle, threaded", 1, Mode::threaded));
  against(pooled_contender("heddle, 64 threads", pooled_devices, Mode::threaded));
}

}  // namespace heddle::bench
