// The cost of an idle runtime: processor time of the process while all its devices sleep.
#include <time.h>

#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {
namespace {

constexpr int idle_devices = 16;
constexpr auto rest = std::chrono::milliseconds(400);

double process_ns() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e9 + static_cast<double>(now.tv_nsec);
}

/// In percent of one core.
double at_rest(sched::Mode mode) {
  const Unpinned beside_the_host;
  Scheduler scheduler;
  std::vector<sched::TaskDevice> open;
  for (int k = 0; k < idle_devices; ++k) {
    sched::DeviceOptions options;
    options.mode = mode;
    open.push_back(scheduler.new_device(options));
    throw_if_failed(open.back().submit("task", [] {}).wait());
  }
  std::this_thread::sleep_for(rest / 10);  // workers spin for a while
  const auto start = Clock::now();
  const double used = process_ns();
  std::this_thread::sleep_for(rest);
  return 100 * (process_ns() - used) / ns_between(start, Clock::now());
}

}  // namespace

void add_idle_rows(std::vector<Row>& rows) {
  for (const auto& [subject, mode] : {std::pair{"heddle, threaded", sched::Mode::threaded},
                                      std::pair{"heddle, pooled", sched::Mode::pooled}}) {
    rows.push_back(Gauge{"idle", "idle, 16 devices", "core", subject, Unit::percent,
                         [mode] { return at_rest(mode); }});
  }
}

}  // namespace heddle::bench
