// What a small routine costs that is scheduled, or run by a replay of as many calls: its host, and
// the worker beyond the kernel. The kernel does nothing, so all that is seen is the rest.
#include <cstdint>
#include <optional>

#include "heddle/backend.hpp"
#include "heddle/replay.hpp"
#include "heddle/routine.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

constexpr int launches = 2000;  // fit into a queue
constexpr int rounds = 60;

/// Three tensors and a static index, on a device of its own.
class SmallRoutine {
 public:
  explicit SmallRoutine(bool replayed) {
    const Unpinned while_starting;
    BackendOptions options;
    options.name = "null";
    options.scheduling.device.processor = static_cast<unsigned>(
        processors()[static_cast<std::size_t>(worker_processor) % processors().size()]);
    const Backend backend = Backend::open(options);
    const Tensor a("a", f32, {8, 8}), b("b", f32, {8, 8}), c("c", f32, {8, 8});
    const Index i;
    Program program("small");
    program << (c(row_, i) = a(row_, i) + b(row_, i));
    device_.emplace(backend.physical_device(0).new_virtual_device());
    routine_.emplace(Context(*device_).link(backend.compile(program)));
    if (replayed) {
      Recording recording("recorded");
      for (int k = 0; k < launches; ++k) recording.schedule(*routine_, bindings_);
      replay_.emplace(recording.finish());
    }
    device_->await();
    for (int k = 0; k < 2; ++k) static_cast<void>(host_side());
  }

  /// While the worker runs them; per launch.
  [[nodiscard]] double host_side() const {
    const auto start = Clock::now();
    schedule_all();
    const auto end = Clock::now();
    device_->await();
    return ns_between(start, end) / launches;
  }
  /// Queued before any of them runs; per launch.
  [[nodiscard]] double worker_side() const {
    Clock::time_point start, end;
    sched::ExternalTimeline host("host");
    const Event go = host.next();
    device_->wait(go);
    const sched::TaskDevice& timeline = device_->timeline();
    timeline.submit("start", [&start] { start = Clock::now(); });
    schedule_all();
    const Event over = timeline.submit("end", [&end] { end = Clock::now(); });
    throw_if_failed(host.signal(go.ticket()));
    throw_if_failed(over.wait());
    return ns_between(start, end) / launches;
  }

 private:
  void schedule_all() const {
    if (replay_) {
      replay_->run();
      return;
    }
    for (int k = 0; k < launches; ++k) routine_->schedule(bindings_);
  }

  const StaticIndex row_{"row"};
  const Bindings bindings_{{row_, 3}};
  std::optional<Device> device_;
  std::optional<Routine> routine_;
  std::optional<Replay> replay_;  // none: each is scheduled
};

double median_of(double (SmallRoutine::*side)() const, bool replayed = false) {
  const SmallRoutine routine(replayed);
  Samples samples;
  for (int k = 0; k < rounds; ++k) samples.add((routine.*side)());
  return samples.percentile(0.5);
}

}  // namespace

void add_schedule_rows(std::vector<Row>& rows) {
  rows.push_back(Gauge{"schedule", "scheduled small routine, host", "launch", "heddle", Unit::ns,
                       [] { return median_of(&SmallRoutine::host_side); }});
  rows.push_back(Gauge{"schedule", "scheduled small routine, worker beyond kernel", "launch",
                       "heddle", Unit::ns, [] { return median_of(&SmallRoutine::worker_side); }});
}

void add_replay_rows(std::vector<Row>& rows) {
  rows.push_back(Gauge{"replay", "replayed small routine, host", "call", "heddle", Unit::ns,
                       [] { return median_of(&SmallRoutine::host_side, true); }});
  rows.push_back(Gauge{"replay", "replayed small routine, worker beyond kernel", "call", "heddle",
                       Unit::ns, [] { return median_of(&SmallRoutine::worker_side, true); }});
}

}  // namespace heddle::bench
