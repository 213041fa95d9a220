// Submits empty tasks to a device that is held back, then lets them run: what instructions_test.py
// counts the instructions of. usage: instructions TASKS
#include <sys/syscall.h>

#include <cstdarg>
#include <cstdint>
#include <cstdlib>

#include "heddle/scheduler.hpp"
#include "tests/support/real_syscall.hpp"

// Valgrind does not know membarrier. It runs one thread at a time, with all that the others did
// before it: there is nothing to do, and what is counted is what runs where the kernel has it.
extern "C" long syscall(long number, ...) {
  if (number == SYS_membarrier) return 0;
  std::va_list list;
  va_start(list, number);
  const long result = heddle::real_syscall(number, list);
  va_end(list);
  return result;
}

int main(int argc, char** argv) {
  using namespace heddle;
  if (argc != 2) return 2;
  constexpr std::uint64_t batch = 50'000;
  Scheduler scheduler;
  sched::DeviceOptions options;
  options.queue_size = 2 * batch;
  options.spin = std::chrono::nanoseconds(0);
  const sched::TaskDevice device = scheduler.new_device(options);
  sched::ExternalTimeline gate("gate");
  const std::uint64_t tasks = std::strtoull(argv[1], nullptr, 10);
  for (std::uint64_t submitted = 0; submitted < tasks; submitted += batch) {
    const Event opened = gate.next();
    device.wait(opened);
    for (std::uint64_t k = 0; k < batch; ++k) device.submit("task", [] {});
    if (!gate.signal(opened.ticket()).ok() || !device.await().ok()) return 1;
  }
  return device.counters().done >= tasks ? 0 : 1;
}
