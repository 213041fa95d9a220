// Hosts that act at random on a few devices, and a record of every task's result.
#include "tools/stress/simulated_graph.hpp"

#include <fmt/format.h>

#include <array>
#include <stdexcept>
#include <vector>

#include "tools/stress/late_tasks.hpp"

namespace heddle::stress {
namespace {

using namespace std::chrono_literals;
using sched::FullPolicy;
using sched::TaskDevice;

/// The result of one accepted submission.
struct Fate {
  Event event{};
  int begun = 0, ended = 0;
  int calls_due = 0, calls = 0;
  ErrorCode told = ErrorCode::ok;  // reported by the callback
  bool is_wait = false;            // TaskDevice::wait(): runs nothing
  bool ends_later = false;
  bool failed_at_issue = false;
  LateEnd late{};
  [[nodiscard]] bool bad() const noexcept { return failed_at_issue || late.reported_bad; }
};
/// An event to wait for; its task may be recorded, or not.
struct Promise {
  Event event{};
  std::shared_ptr<Fate> fate{};
};

/// A device, and the observations of its tasks.
struct Target {
  explicit Target(TaskDevice opened) : device(std::move(opened)) {}
  TaskDevice device;
  bool inside = false;
  std::uint64_t last_ticket = 0;
  InFlight in_flight;
  std::vector<std::shared_ptr<Fate>> fates;
};

/// The plan of a task.
struct Plan {
  std::shared_ptr<Fate> fate;
  Event other;
  bool fails, nests;
  std::uint64_t waits;
  int depth;
};

class Graph {
 public:
  explicit Graph(SimulationOptions options) : simulation_(std::move(options)) {}
  ~Graph() { over_ = true; }
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  GraphReport run() {
    const std::uint64_t devices = 1 + draw(4);
    for (std::uint64_t k = 0; k < devices; ++k) targets_.push_back(open());
    const std::uint64_t hosts = 1 + draw(4);
    for (std::uint64_t k = 0; k < hosts; ++k) {
      simulation_.host(fmt::format("host{}", k),
                       [this, actions = 5 + draw(draw(8) == 0 ? 250 : 25)] {
                         for (std::uint64_t left = actions; left > 0; --left) act();
                       });
    }
    static_cast<void>(simulation_.run());
    check();
    const LateTasks::Counts late = late_.counts();
    return {simulation_.run(),
            {{"waits that would have closed a cycle", cycles_},
             {"tasks that end later", late.begun},
             {"beside others in flight", late.beside_others},
             {"dropped Completions", late.dropped},
             {"failures at the end", late.failed}}};
  }

 private:
  using Time = std::chrono::nanoseconds;

  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) { return simulation_.random(bound); }
  [[nodiscard]] Time draw_time() { return Time(1000 << draw(14)); }

  /// Opens a device, unless the simulation refuses for a long time.
  std::shared_ptr<Target> open() {
    sched::DeviceOptions options;
    options.name = fmt::format("device{}", all_.size());
    options.queue_size = std::uint32_t{1} << draw(6);
    options.full = std::array{FullPolicy::block, FullPolicy::fail}[draw(2)];
    options.drain_max = draw(2) == 0 ? draw_time() : Time(60s);
    if (draw(3) == 0) options.in_flight = 1 + static_cast<std::uint32_t>(draw(4));
    for (int k = 0; k < 1000; ++k) {
      try {
        all_.push_back(std::make_shared<Target>(simulation_.scheduler().new_device(options)));
        all_.back()->in_flight.max = options.in_flight;
        return all_.back();
      } catch (const Error& e) {
        const bool planted = e.code() == ErrorCode::unavailable || e.code() == ErrorCode::exhausted;
        if (!planted) simulation_.fail(std::string("opening a device: ") + e.what());
      }
    }
    simulation_.fail("no device can be opened");
    throw std::runtime_error("no device");
  }

  /// Returns copies: other hosts may replace the device meanwhile.
  [[nodiscard]] std::shared_ptr<Target> any_target() { return targets_[draw(targets_.size())]; }

  [[nodiscard]] Promise any_promise() {
    return promises_.empty() ? Promise() : promises_[draw(promises_.size())];
  }
  [[nodiscard]] Event any_event() { return any_promise().event; }
  void publish(Promise promise) {
    if (promises_.size() < 32) {
      promises_.push_back(std::move(promise));
    } else {
      promises_[oldest_++ % 32] = std::move(promise);
    }
  }

  /// Checks `status`, reported as the end of a submission.
  void check_told(const Promise& promise, const Status& status) {
    if (!status.ok() || !promise.fate || promise.fate->is_wait) return;
    const Fate& fate = *promise.fate;
    if (fate.ended != 1 || fate.bad() || fate.late.reports != (fate.ends_later ? 1 : 0)) {
      simulation_.fail(fmt::format("{} was said to be ok, and did not run and end well",
                                   promise.event.to_string()));
    }
  }

  void act() {
    const auto target = any_target();
    const TaskDevice device = target->device;
    switch (draw(32)) {
      case 0:
        expect(device.recover(), {ErrorCode::ok, ErrorCode::cancelled}, "recover()");
        break;
      case 1:
        device.cancel_pending();
        break;
      case 2:
        expect(device.await_for(draw_time()),
               {ErrorCode::ok, ErrorCode::device_failed, ErrorCode::deadline}, "await_for()");
        break;
      case 3:
      case 4: {
        const Promise promise = any_promise();
        const bool timed = draw(2) == 0;
        check_told(promise, timed ? promise.event.wait_for(draw_time()) : promise.event.wait());
        break;
      }
      case 5:
        if (device.snapshot().to_string().empty()) simulation_.fail("an empty snapshot");
        break;
      case 6:
        wait_for(*target, any_event());
        break;
      case 7:
      case 8: {
        const Event event = foreign_.next();
        simulation_.signal_later(foreign_, event);
        publish({event});
        break;
      }
      case 9:
        if (draw(4) == 0) replace(target);
        break;
      case 10:
        simulation_.sleep_for(draw_time());
        break;
      case 11:
        simulation_.yield();
        break;
      case 12:
        cancel_what_waits(target);
        break;
      case 13:
        late_.end_one(draw_);
        break;
      default:
        submit(target, 0);
    }
  }

  /// A wait for an event that is never signalled ends when the wait is cancelled.
  void cancel_what_waits(const std::shared_ptr<Target>& target) {
    sched::ExternalTimeline nobody("nobody");
    const Event never = nobody.next();
    sched::SubmitOptions options;
    options.after.push_back(never);
    options.full = FullPolicy::fail;
    const auto fate = std::make_shared<Fate>();
    const Event event =
        target->device.submit("gated", [fate] { ++fate->begun, ++fate->ended; }, options);
    account(*target, event, fate);
    if (event.accepted()) {
      target->device.cancel_pending();
      static_cast<void>(event.wait());
    }
  }

  /// Shuts a device down, or releases it, and opens a replacement.
  void replace(const std::shared_ptr<Target>& target) {
    for (auto& place : targets_) {
      if (place == target) place = open();
    }
    if (draw(2) == 0) {
      expect(target->device.shutdown(draw_time()), {ErrorCode::ok, ErrorCode::deadline},
             "shutdown()");
    }
  }

  /// Tasks wait for existing events when they run, and block on full queues: such waits close
  /// cycles, and one wait of each cycle is refused.
  void submit(const std::shared_ptr<Target>& target, int depth) {
    sched::SubmitOptions options;
    options.contain = draw(4) == 0;
    if (draw(3) == 0) options.after.push_back(any_event());
    if (draw(8) == 0) options.after.push_back(any_event());
    if (draw(4) == 0) options.full = FullPolicy::fail;
    if (draw(8) == 0) {
      options.full = FullPolicy::deadline;
      options.deadline = simulation_.now() + draw_time();
    }
    const bool fails = draw(16) == 0;
    const bool nests = depth < 3 && draw(8) == 0;
    const std::uint64_t waits = draw(8);
    const Plan plan{std::make_shared<Fate>(), any_event(), fails, nests, waits, depth};
    if (target->in_flight.max != 0 && draw(2) == 0) return submit_late(*target, plan, options);
    const Event event = target->device.submit(
        "task",
        [this, raw = target.get(), plan]() -> Status {
          late_.check_alone(raw->in_flight);
          return run(*raw, plan);
        },
        options);
    account(*target, event, plan.fate);
  }

  Status run(Target& here, const Plan& plan) {
    ++plan.fate->begun;
    if (here.inside) simulation_.fail("two tasks of a device at once");
    if (this_task::ticket() <= here.last_ticket) simulation_.fail("tasks out of order");
    here.inside = true;
    here.last_ticket = this_task::ticket();
    const std::uint64_t waits = plan.waits;
    Status end;
    if (waits == 0) end = this_task::await(draw(2) == 0 ? plan.other : any_event());
    if (waits == 1) end = any_event().wait_for(draw_time());
    if (waits == 2) simulation_.yield();
    if (waits == 3 && draw(2) == 0) end = any_target()->device.await();
    if (end.message().find("a cycle") != std::string::npos) ++cycles_;
    if (waits == 4 && draw(2) == 0) wait_for(*any_target(), any_event());
    if (waits == 5) late_.end_one(draw_);
    if (plan.nests) submit(any_target(), plan.depth + 1);
    here.inside = false;
    ++plan.fate->ended;
    if (plan.fails) throw std::runtime_error("drawn to fail");
    return end.code() == ErrorCode::cancelled ? end : Status();
  }

  /// The completing host may receive the Completion before or after the task is issued.
  void submit_late(Target& target, const Plan& plan, const sched::SubmitOptions& options) {
    const auto fate = plan.fate;
    fate->ends_later = true;
    const Event event = target.device.submit(
        "late",
        [this, here = &target, plan,
         kept = late_.keep(target.in_flight, fate->late)](sched::Completion completion) {
          auto task = late_.begin(*kept, std::move(completion));
          const bool first = draw(2) == 0;
          if (first) end_later(std::move(task));
          plan.fate->failed_at_issue = true;  // if it throws
          Status status = run(*here, plan);
          plan.fate->failed_at_issue = !status.ok();
          if (!first) end_later(std::move(task));
          return status;
        },
        options);
    account(target, event, fate);
  }

  /// The device, or its replacement.
  void end_later(std::shared_ptr<LateTasks::Unreported> task) {
    if (draw(8) == 0) return late_.end(*task, draw_);
    late_.leave(std::move(task));
    simulation_.host("end", [this, when = draw_time()] {
      simulation_.sleep_for(when);
      late_.end_one(draw_);
    });
  }

  void wait_for(Target& target, const Event& other) {
    const Event event = target.device.wait(other);
    const bool needs_no_task =
        event.device_id() == other.device_id() && event.ticket() == other.ticket();
    const auto fate = std::make_shared<Fate>();
    fate->is_wait = true;
    if (!needs_no_task) account(target, event, fate);
  }

  void account(Target& target, const Event& event, const std::shared_ptr<Fate>& fate) {
    if (!event.accepted()) {
      expect(event.status(),
             {ErrorCode::exhausted, ErrorCode::device_failed, ErrorCode::deadline,
              ErrorCode::unavailable, ErrorCode::cancelled, ErrorCode::failed_precondition},
             "a refusal");
      if (fate->begun != 0) simulation_.fail("a refused task ran");
      return;
    }
    fate->event = event;
    target.fates.push_back(fate);
    publish({event, fate});
    if (draw(4) != 0) return;
    try {
      event.then([this, fate](const Status& status) {
        ++fate->calls;
        fate->told = status.code();
        check_told({fate->event, fate}, status);
      });
      ++fate->calls_due;
    } catch (const std::bad_alloc&) {  // a call that throws registers no callback
    }
  }

  void expect(const Status& status, std::initializer_list<ErrorCode> codes, const char* what) {
    for (const ErrorCode code : codes) {
      if (status.code() == code) return;
    }
    simulation_.fail(fmt::format("{}: {}", what, status.to_string()));
  }

  /// Every accepted task ended once, with the status of its event, and the counters add up.
  void check() {
    for (const auto& target : all_) {
      const std::string& name = target->device.name();
      std::uint64_t done = 0, cancelled = 0, accepted = 0;
      for (const auto& fate : target->fates) {
        const auto complain = [&](const char* what) {
          simulation_.fail(fmt::format("'{}' {}: {}", name, fate->event.to_string(), what));
        };
        if (!fate->event.done()) complain("never ended");
        if (fate->begun > 1 || fate->ended != fate->begun) complain("did not run once");
        const int reports = fate->ends_later ? fate->begun : 0;
        if (fate->late.reports != reports) complain("its end was not reported once");
        if (fate->calls != fate->calls_due) complain("its callback was not called once");
        const ErrorCode end = fate->event.status().code();
        if (fate->calls == 1 && fate->told != end) complain("its callback was told otherwise");
        if (end == ErrorCode::ok && fate->bad()) complain("it failed, and its event says ok");
        if (end == ErrorCode::ok) ++done;
        if (end == ErrorCode::cancelled) ++cancelled;
        ++accepted;
      }
      const sched::Counters counters = target->device.counters();
      if (counters.submitted != accepted || counters.done != done ||
          counters.cancelled != cancelled ||
          counters.submitted !=
              counters.done + counters.failed + counters.skipped + counters.cancelled) {
        simulation_.fail(fmt::format("'{}': {} accepted, {} done, {} cancelled, but {}", name,
                                     accepted, done, cancelled,
                                     target->device.snapshot().to_string()));
      }
    }
  }

  sched::ExternalTimeline foreign_{"foreign"};
  std::vector<std::shared_ptr<Target>> targets_;  // in use
  std::vector<std::shared_ptr<Target>> all_;
  std::vector<Promise> promises_;
  std::size_t oldest_ = 0;
  std::uint64_t cycles_ = 0;
  bool over_ = false;
  LateTasks late_{[this](const char* why) {
    if (!over_) simulation_.fail(why);
  }};
  const LateTasks::Draw draw_ = [this](std::uint64_t bound) { return draw(bound); };
  Simulation simulation_;  // destroyed first: hanging hosts run once more
};

}  // namespace

SimulationOptions graph_options(std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.fault_steps = std::uint64_t{32} << (seed % 7);
  return options;
}

GraphReport simulate_graph(SimulationOptions options) { return Graph(std::move(options)).run(); }

}  // namespace heddle::stress
