// What a recorded routine costs in each run of its replay: its host, and the worker beyond the
// kernel, which does nothing.
#include <cstdint>
#include <optional>

#include "heddle/backend.hpp"
#include "heddle/replay.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

constexpr int recorded = 1000;
constexpr int rounds = 100;

/// Calls of one small routine on a device of its own, each with a static index that is fixed.
class RecordedRoutines {
 public:
  RecordedRoutines() {
    const Unpinned while_starting;
    BackendOptions options;
    options.name = "null";
    options.scheduling.device.processor = static_cast<unsigned>(
        processors()[static_cast<std::size_t>(worker_processor) % processors().size()]);
    const Backend backend = Backend::open(options);
    const Tensor a("a", f32, {8, 8}), b("b", f32, {8, 8}), c("c", f32, {8, 8});
    const StaticIndex row("row");
    const Index i;
    Program program("small");
    program << (c(row, i) = a(row, i) + b(row, i));
    device_.emplace(backend.physical_device(0).new_virtual_device());
    const Routine routine = Context(*device_).link(backend.compile(program));
    Recording recording("recorded");
    for (int k = 0; k < recorded; ++k) recording.schedule(routine, {{row, k % 8}});
    replay_.emplace(recording.finish());
    for (int k = 0; k < 2; ++k) static_cast<void>(host_side());
  }

  /// Per call.
  [[nodiscard]] double host_side() const {
    const auto start = Clock::now();
    replay_->run();
    const auto end = Clock::now();
    device_->await();
    return ns_between(start, end) / recorded;
  }
  [[nodiscard]] double worker_side() const {
    Clock::time_point start, end;
    sched::ExternalTimeline host("host");
    const Event go = host.next();
    device_->wait(go);
    const sched::TaskDevice& timeline = device_->timeline();
    timeline.submit("start", [&start] { start = Clock::now(); });
    replay_->run();
    const Event over = timeline.submit("end", [&end] { end = Clock::now(); });
    throw_if_failed(host.signal(go.ticket()));
    throw_if_failed(over.wait());
    return ns_between(start, end) / recorded;
  }

 private:
  std::optional<Device> device_;
  std::optional<Replay> replay_;
};

double median_of(double (RecordedRoutines::*side)() const) {
  const RecordedRoutines routines;
  Samples samples;
  for (int k = 0; k < rounds; ++k) samples.add((routines.*side)());
  return samples.percentile(0.5);
}

}  // namespace

void add_replay_rows(std::vector<Row>& rows) {
  rows.push_back(Gauge{"replay", "replayed small routine, host", "call", "heddle", Unit::ns,
                       [] { return median_of(&RecordedRoutines::host_side); }});
  rows.push_back(Gauge{"replay", "replayed small routine, worker beyond kernel", "call", "heddle",
                       Unit::ns, [] { return median_of(&RecordedRoutines::worker_side); }});
}

}  // namespace heddle::bench
