// Fan-out and fan-in: a task on one device, then one task on each of eight, then one on the first
// device after all eight. All tasks are submitted first; the devices wait for events of other
// devices. Workers run beside the host, on the available processors: threads of threaded devices
// share the processors, a pool has one worker on each.
#include <memory>
#include <utility>
#include <vector>

#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/limit_futex.hpp"
#include "tools/bench/subject.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

class HeddleFan {
 public:
  explicit HeddleFan(sched::Mode mode) : scheduler_(workers_beside_the_host()) {
    const bool pooled = mode == sched::Mode::pooled;
    const Unpinned while_opening(pooled ? Unpinned::Where::beside_host : Unpinned::Where::anywhere);
    for (int k = 0; k < fan_width; ++k) {
      sched::DeviceOptions shared;
      shared.mode = sched::Mode::pooled;
      devices_.push_back(pooled ? scheduler_.new_device(shared)
                                : open_pinned(scheduler_, spread_processor(k)));
    }
  }
  void run() {
    ++rounds_;
    sched::SubmitOptions after_root, after_leaves;
    after_root.after.push_back(devices_[0].submit("root", [] {}));
    for (const sched::TaskDevice& device : devices_) {
      after_leaves.after.push_back(device.submit("leaf", [] {}, after_root));
    }
    devices_[0].submit("join", [this] { ++joined_; }, after_leaves).wait();
  }
  [[nodiscard]] std::uint64_t rounds() const { return rounds_; }
  [[nodiscard]] std::uint64_t joined() const { return joined_; }

 private:
  static SchedulerOptions workers_beside_the_host() {
    SchedulerOptions options;
    options.workers = static_cast<unsigned>(workers_beside_host());
    options.pin_workers = true;
    return options;
  }

  std::uint64_t rounds_ = 0;
  std::uint64_t joined_ = 0;  // written by the first device
  Scheduler scheduler_;
  std::vector<sched::TaskDevice> devices_;
};

Contender heddle_fan(const char* name, sched::Mode mode) {
  return {name, Kind::heddle, [mode](nanoseconds length, Samples& samples) {
            HeddleFan fan(mode);
            fan.run();
            const double ns = timed_operations(length, samples, [&fan] { fan.run(); });
            require_all_ran("heddle", fan.joined(), fan.rounds());
            return ns;
          }};
}

Contender futexes() {
  return {"8 bare futexes", Kind::limit, [](nanoseconds length, Samples& samples) {
            std::vector<std::unique_ptr<FutexSleeper>> sleepers;
            for (int k = 0; k < fan_width; ++k) {
              sleepers.push_back(std::make_unique<FutexSleeper>(spread_processor(k)));
            }
            return timed_operations(length, samples, [&sleepers] {
              for (const auto& sleeper : sleepers) sleeper->wake();
              for (const auto& sleeper : sleepers) sleeper->wait();
            });
          }};
}

}  // namespace

void add_fan_rows(std::vector<Row>& rows) {
  for (const auto& [name, mode] : {std::pair{"heddle, threaded", sched::Mode::threaded},
                                   std::pair{"heddle, pooled", sched::Mode::pooled}}) {
    Against against(rows,
                    {"fan", "fan-out and fan-in over 8", "graph", heddle_fan(name, mode), {}});
    against(futexes());
    against(&Rival::fan);
  }
}

}  // namespace heddle::bench
