// Open a device and close it, in an existing scheduler: a thread, a queue and a timeline.
#include <thread>

#include "tools/bench/against.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/subject.hpp"

namespace heddle::bench {
namespace {

Contender device() {
  return {"heddle", Kind::heddle, [](nanoseconds length, Samples& samples) {
            Scheduler scheduler;
            const sched::DeviceOptions options{.name = "bench", .spin = {}};
            const Unpinned beside_the_host;
            return timed_operations(length, samples, [&] {
              const sched::TaskDevice device = scheduler.new_device(options);
            });
          }};
}

Contender thread() {
  return {"bare thread", Kind::limit, [](nanoseconds length, Samples& samples) {
            const Unpinned beside_the_host;
            return timed_operations(length, samples, [] { std::thread([] {}).join(); });
          }};
}

}  // namespace

void add_open_rows(std::vector<Row>& rows) {
  Against against(rows, {"open", "open+close", "worker", device(), {}});
  against(thread());
  against(&Rival::open);
}

}  // namespace heddle::bench
