// Resident memory of devices and of queued tasks: the growth of the process.
#include <malloc.h>
#include <unistd.h>

#include <fstream>
#include <semaphore>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {
namespace {

/// Measured after returning free memory to the system: memory freed earlier does not hide new
/// allocations.
double resident_bytes() {
  malloc_trim(0);
  std::uint64_t all = 0, resident = 0;
  std::ifstream("/proc/self/statm") >> all >> resident;
  if (resident == 0) throw Error(ErrorCode::unavailable, "/proc/self/statm cannot be read here");
  return static_cast<double>(resident) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

/// A device that has run a task.
double bytes_per_device(sched::Mode mode) {
  constexpr int count = 64;
  const Unpinned beside_the_host;
  Scheduler scheduler;
  std::vector<sched::TaskDevice> open;
  open.reserve(count);
  const auto open_one = [&] {
    sched::DeviceOptions options;
    options.mode = mode;
    open.push_back(scheduler.new_device(options));
    throw_if_failed(open.back().submit("task", [] {}).wait());
  };
  open_one();  // allocates the shared state
  const double before = resident_bytes();
  for (int k = 1; k < count; ++k) open_one();
  return (resident_bytes() - before) / (count - 1);
}

/// A full queue of tasks with the largest callable that needs no allocation, including the device.
double bytes_per_task() {
  constexpr std::uint32_t count = std::uint32_t{1} << 16;
  struct Largest {
    std::byte bytes[sched::task_bytes_max];
    void operator()() const {}
  };
  const Unpinned beside_the_host;
  Scheduler scheduler;
  const double before = resident_bytes();
  sched::DeviceOptions options;
  options.queue_size = count;
  const sched::TaskDevice device = scheduler.new_device(options);
  std::binary_semaphore go{0};
  device.submit("gate", [&go] { go.acquire(); });
  for (std::uint32_t k = 1; k < count; ++k) device.submit("task", Largest{});
  const double after = resident_bytes();
  go.release();
  throw_if_failed(device.await());
  return (after - before) / count;
}

}  // namespace

void add_footprint_rows(std::vector<Row>& rows) {
  for (const auto& [subject, mode] : {std::pair{"heddle, threaded", sched::Mode::threaded},
                                      std::pair{"heddle, pooled", sched::Mode::pooled}}) {
    rows.push_back(Gauge{"footprint", "memory per device", "device", subject, Unit::bytes,
                         [mode] { return bytes_per_device(mode); }});
  }
  rows.push_back(
      Gauge{"footprint", "memory per queued task", "task", "heddle", Unit::bytes, bytes_per_task});
}

}  // namespace heddle::bench
