// The cost of a small routine that is scheduled, or run by a replay of as many calls: on the host,
// and on the worker beyond the kernel. The kernel is empty, so that only the overhead is measured.
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

#include "heddle/backend.hpp"
#include "heddle/replay.hpp"
#include "heddle/routine.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

constexpr int launches = 2000;  // fit into a queue
constexpr int rounds = 60;

struct How {
  bool replayed = false;
  Sync sync = Sync::automatic;
  bool shared = false;  ///< a second device reads the same memory, so that the order is checked
};

/// Three tensors and a static index, on a separate device.
class SmallRoutine {
 public:
  explicit SmallRoutine(const How& how) {
    const Unpinned while_starting;
    BackendOptions options;
    options.name = "null";
    options.scheduling.device.processor = static_cast<unsigned>(
        processors()[static_cast<std::size_t>(worker_processor) % processors().size()]);
    options.sync = how.sync;
    const Backend backend = Backend::open(options);
    const Tensor a("a", f32, {8, 8}), b("b", f32, {8, 8}), c("c", f32, {8, 8});
    const Index i;
    Program program("small");
    program << (c(row_, i) = a(row_, i) + b(row_, i));
    device_.emplace(backend.physical_device(0).new_virtual_device());
    routine_.emplace(Context(*device_).link(backend.compile(program)));
    if (how.shared) {
      const Context empty(backend.physical_device(0).new_virtual_device()),
          ours = routine_->context();
      other_.emplace(
          empty.with(a, ours.view(a)).with(b, ours.view(b)).link(backend.compile(program)));
      throw_if_failed(other_->schedule(bindings_).wait());
    }
    if (how.replayed) {
      Recording recording("recorded");
      for (int k = 0; k < launches; ++k) recording.schedule(*routine_, bindings_);
      replay_.emplace(recording.finish());
    }
    device_->await();
    for (int k = 0; k < 2; ++k) static_cast<void>(host_side());
  }

  /// While the worker runs the launches; per launch.
  [[nodiscard]] double host_side() const {
    const auto start = Clock::now();
    schedule_all();
    const auto end = Clock::now();
    device_->await();
    return ns_between(start, end) / launches;
  }
  /// All launches are queued before the first runs; per launch.
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
  std::optional<Replay> replay_;  // none: each launch is scheduled
  std::optional<Routine> other_;
};

using Side = double (SmallRoutine::*)() const;

double median_of(Side side, const How& how) {
  const SmallRoutine routine(how);
  Samples samples;
  for (int k = 0; k < rounds; ++k) samples.add((routine.*side)());
  return samples.percentile(0.5);
}

/// The additional time of the first beyond the second, in alternating turns.
double added_ns(Side side, const How& how, const How& less) {
  const SmallRoutine routine(how), other(less);
  Samples samples;
  for (int k = 0; k < rounds; ++k) {
    const double first = (routine.*side)();
    samples.add(first - (other.*side)());
  }
  return samples.percentile(0.5);
}

Gauge gauge(const char* name, std::string workload, const char* operation,
            std::function<double()> read) {
  return {name, std::move(workload), operation, "heddle", Unit::ns, std::move(read)};
}

}  // namespace

void add_schedule_rows(std::vector<Row>& rows) {
  for (const bool shared : {false, true}) {
    const std::string what =
        shared ? "small routine, inputs read elsewhere too, " : "scheduled small routine, ";
    const How automatic{.shared = shared}, manual{.sync = Sync::manual, .shared = shared},
        check{.sync = Sync::check, .shared = shared};
    for (const bool host : {true, false}) {
      const Side side = host ? &SmallRoutine::host_side : &SmallRoutine::worker_side;
      const std::string whose = what + (host ? "host" : "worker beyond kernel");
      const auto add = [&](const std::string& workload, const How& how) {
        rows.push_back(gauge("schedule", workload, "launch", [=] { return median_of(side, how); }));
      };
      add(whose, automatic);
      add(whose + ", manual", manual);
      add(whose + ", check", check);
      rows.push_back(gauge("schedule", whose + ", automatic beyond manual", "launch",
                           [=] { return added_ns(side, automatic, manual); }));
    }
  }
}

void add_replay_rows(std::vector<Row>& rows) {
  static constexpr How replayed{.replayed = true};
  rows.push_back(gauge("replay", "replayed small routine, host", "call",
                       [] { return median_of(&SmallRoutine::host_side, replayed); }));
  rows.push_back(gauge("replay", "replayed small routine, worker beyond kernel", "call",
                       [] { return median_of(&SmallRoutine::worker_side, replayed); }));
}

}  // namespace heddle::bench
