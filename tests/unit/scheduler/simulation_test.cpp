// Simulations: what a seed decides, what they find, and that the scheduler survives thousands.
// HEDDLE_TEST_SEED=N runs random graphs from that seed on, HEDDLE_TEST_SEEDS=N so many of them.
#include "heddle/simulation.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/observe.hpp"
#include "tests/support/seeds.hpp"
#include "tools/stress/simulate.hpp"
#include "tools/stress/simulated_graph.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::TaskDevice;
using testing::HasSubstr;

SimulationOptions quiet(std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.faults.fill(false);
  return options;
}

/// Lets no test write to the log: what it says is expected there.
class QuietLog {
 public:
  QuietLog() {
    set_log_hook([](LogLevel, std::string_view) {});
  }
  ~QuietLog() { set_log_hook({}); }
};

// S18, S1, S4, S6, S7, S9, S11, S12, S13, S14, S23, S25
TEST(SimulationTest, RandomGraphsEndAndAddUpUnderFaults) {
  stress::SimulateOptions options;
  options.seed = test::from_environment("HEDDLE_TEST_SEED", 1);
  options.seeds = test::seeds(10'000);
  const stress::SimulateResult result = stress::simulate(options);
  ASSERT_TRUE(result.broken.ok()) << result.broken.to_string();
  EXPECT_EQ(result.seeds, options.seeds);
  for (std::size_t k = 0; k < result.faults.size(); ++k) {
    EXPECT_TRUE(result.faults[k] > 0 || result.seeds < 1000)
        << name(static_cast<SimulationFault>(k));
  }
  for (const auto& [what, times] : result.seen)
    EXPECT_TRUE(times > 0 || result.seeds < 1000) << what;
  std::printf("%s\n", result.to_string().c_str());
}

// S23, S18: tasks that end later, in any order, well or not or never by their Completion's word,
// with gates between two devices, cancels and recoveries: all end, and add up.
TEST(SimulationTest, TasksThatEndLaterUnderFaults) {
  const QuietLog log;
  std::uint64_t failed = 0, skipped = 0, cancelled = 0;
  const std::uint64_t seeds = test::seeds(1000);
  for (std::uint64_t seed = 1; seed <= seeds; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    Simulation simulation(options);
    std::vector<Event> events;
    std::vector<sched::Completion> begun;
    std::vector<TaskDevice> devices;
    try {
      for (const char* const name : {"io", "net"})
        devices.push_back(
            simulation.scheduler().new_device(sched::DeviceOptions{.name = name, .in_flight = 3}));
    } catch (const Error&) {
      continue;  // a planted fault
    }
    bool submitted = false;
    simulation.host("producer", [&] {
      for (int k = 0; k < 16; ++k) {
        const TaskDevice& device = devices[simulation.random(2)];
        sched::SubmitOptions how;
        how.contain = simulation.random(4) != 0;
        if (k > 0 && simulation.random(3) == 0) how.after.push_back(events[simulation.random(k)]);
        if (simulation.random(4) == 0) {
          events.push_back(device.submit("step", [] {}, how));
        } else {
          events.push_back(device.submit(
              "read", [&](sched::Completion end) { begun.push_back(std::move(end)); }, how));
        }
        if (simulation.random(12) == 0) device.cancel_pending();
        if (simulation.random(6) == 0) static_cast<void>(device.recover());
      }
      submitted = true;
    });
    simulation.host("peer", [&] {
      while (!submitted || !std::ranges::all_of(events, &Event::done)) {
        if (begun.empty()) {
          simulation.sleep_for(1us);
          continue;
        }
        std::swap(begun[simulation.random(begun.size())], begun.back());
        sched::Completion last = std::move(begun.back());
        begun.pop_back();
        if (simulation.random(8) == 0) continue;  // dropped
        const bool fails = simulation.random(6) == 0;
        static_cast<void>(
            last.end(fails ? Status(ErrorCode::unavailable, "the peer hung up") : Status()));
      }
    });
    const SimulationReport report = simulation.run();
    ASSERT_TRUE(report.status.ok()) << report.status.to_string();
    for (const TaskDevice& device : devices) {
      const sched::Counters c = device.counters();
      EXPECT_EQ(c.submitted, c.done + c.failed + c.skipped + c.cancelled) << "seed " << seed;
      failed += c.failed;
      skipped += c.skipped;
      cancelled += c.cancelled;
    }
  }
  EXPECT_TRUE(seeds < 1000 || (failed > 100 && skipped > 100 && cancelled > 100));
}

// S18
TEST(SimulationTest, SeedsDiffer) {
  const SimulationReport one = stress::simulate_graph(stress::graph_options(1));
  const SimulationReport two = stress::simulate_graph(stress::graph_options(2));
  EXPECT_NE(one.hash, two.hash);
  EXPECT_EQ(one.seed, 1u);
}

// S18: a turn that a device asks for and never gets is noticed; its seed brings it again, and
// without the bug the same seed ends well
TEST(SimulationTest, PlantedBugIsFoundAndReplayed) {
  const QuietLog log;
  for (const auto policy :
       {SimulationPolicy::uniform, SimulationPolicy::pct, SimulationPolicy::subset}) {
    SimulationOptions options = stress::graph_options(0);
    options.policy = policy;
    options.lost_turns_one_in = 500;
    SimulationReport found;
    while (found.status.ok() && options.seed < 1000) {
      ++options.seed;
      found = stress::simulate_graph(options);
    }
    ASSERT_FALSE(found.status.ok());
    EXPECT_THAT(found.status.to_string(), HasSubstr("seed " + std::to_string(options.seed)));
    const SimulationReport replayed = stress::simulate_graph(options);
    EXPECT_EQ(replayed.status.to_string(), found.status.to_string());
    EXPECT_EQ(replayed.hash, found.hash);
    options.lost_turns_one_in = 0;
    EXPECT_TRUE(stress::simulate_graph(options).status.ok());
  }
}

/// An embedder's own graph with a bug: a counter read before and written after a wait.
SimulationReport lose_an_update(std::uint64_t seed, SimulationPolicy policy) {
  SimulationOptions options = quiet(seed);
  options.policy = policy;
  Simulation simulation(options);
  const TaskDevice a = simulation.scheduler().new_device("a");
  const TaskDevice b = simulation.scheduler().new_device("b");
  int counter = 0;
  for (const TaskDevice& device : {a, b}) {
    simulation.host("adds on " + device.name(), [&simulation, &counter, device] {
      device.submit("add", [&simulation, &counter] {
        const int seen = counter;
        simulation.yield();
        counter = seen + 1;
      });
    });
  }
  static_cast<void>(simulation.run());
  if (counter != 2) simulation.fail("an update was lost");
  return simulation.run();
}

// S18
TEST(SimulationTest, EmbeddersFindTheirOwnRaces) {
  for (const auto policy :
       {SimulationPolicy::uniform, SimulationPolicy::pct, SimulationPolicy::subset}) {
    std::uint64_t lost = 0;
    bool kept = false;
    for (std::uint64_t seed = 1; seed <= 200; ++seed) {
      const SimulationReport report = lose_an_update(seed, policy);
      if (report.status.ok()) {
        kept = true;
      } else if (lost == 0) {
        lost = seed;
      }
    }
    EXPECT_NE(lost, 0u);
    EXPECT_TRUE(kept);
    const Status again = lose_an_update(lost, policy).status;
    EXPECT_THAT(again.to_string(), HasSubstr("an update was lost"));
  }
}

// S18, S25: which task waits first decides which of two waits is refused, and whether one is:
// schedules of each kind come up, and in none are both
TEST(SimulationTest, SchedulesDecideWhichWaitIsRefused) {
  std::array<int, 3> schedules{};  // neither was refused, the first, the second
  for (std::uint64_t seed = 1; seed <= 200; ++seed) {
    Simulation simulation(quiet(seed));
    const TaskDevice a = simulation.scheduler().new_device("a");
    const TaskDevice b = simulation.scheduler().new_device("b");
    std::array<Event, 2> events;
    std::array<Status, 2> ends;
    const auto host = [&](const TaskDevice& device, std::size_t own) {
      simulation.host("waits on " + device.name(), [&, device, own] {
        events[own] =
            device.submit("waits", [&, own] { ends[own] = this_task::await(events[1 - own]); });
      });
    };
    host(a, 0);
    host(b, 1);
    ASSERT_TRUE(simulation.run().status.ok());
    ASSERT_TRUE(ends[0].ok() || ends[1].ok()) << "seed " << seed;
    const Status& refused = ends[0].ok() ? ends[1] : ends[0];
    ++schedules[ends[0].ok() ? (refused.ok() ? 0 : 2) : 1];
    if (refused.ok()) continue;
    EXPECT_EQ(refused.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(refused.to_string(),
                AllOf(HasSubstr("a cycle"), HasSubstr("'a'"), HasSubstr("'b'")));
  }
  EXPECT_THAT(schedules, testing::Each(testing::Gt(0)));
}

// S18: time goes by at no cost
TEST(SimulationTest, TimeIsSimulated) {
  Simulation simulation(quiet(1));
  const TaskDevice device = simulation.scheduler().new_device("work");
  EXPECT_EQ(device.mode(), sched::Mode::simulated);
  sched::ExternalTimeline foreign("foreign");
  const Event never = foreign.next();
  Status waited, slept;
  simulation.host("waits", [&] { waited = never.wait_for(1h); });
  simulation.host("sleeps", [&] {
    device.submit("sleep", [&] {
      simulation.sleep_for(24h);
      slept = this_task::await(never);
    });
  });
  simulation.host("signals", [&] {
    simulation.sleep_for(48h);
    EXPECT_TRUE(foreign.signal(never.ticket()).ok());
  });
  const SimulationReport report = simulation.run();
  EXPECT_TRUE(report.status.ok()) << report.status.to_string();
  EXPECT_EQ(waited.code(), ErrorCode::deadline);
  EXPECT_TRUE(slept.ok());
  EXPECT_GE(report.simulated, 48h);
  EXPECT_GT(report.steps, 0u);
}

// S18: the thread that made it may wait too, and drives the simulation by that
TEST(SimulationTest, TheThreadOutsideDrivesItByWaiting) {
  Simulation simulation(quiet(3));
  const TaskDevice device = simulation.scheduler().new_device("work");
  int ran = 0;
  EXPECT_TRUE(device.submit("one", [&] { ++ran; }).wait().ok());
  device.submit("two", [&] { ++ran; });
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(ran, 2);
  sched::ExternalTimeline foreign("foreign");
  const Event event = foreign.next();
  EXPECT_EQ(event.wait_for(1s).code(), ErrorCode::deadline);
  EXPECT_EQ(event.wait().code(), ErrorCode::cancelled);  // nobody here will signal it
  simulation.signal_later(foreign, event);
  EXPECT_TRUE(event.wait().ok());
}

// S18: what hangs is named, and ends with the simulation
TEST(SimulationTest, WhatHangsIsNamed) {
  const QuietLog log;
  sched::ExternalTimeline foreign("driver");
  const Event forgotten = foreign.next();
  Status host_end, task_end;
  {
    Simulation simulation(quiet(7));
    const TaskDevice device = simulation.scheduler().new_device("work");
    simulation.host("hangs", [&] { host_end = forgotten.wait(); });
    EXPECT_THAT(simulation.run().status.to_string(),
                AllOf(HasSubstr("host 'hangs'"), HasSubstr("driver#1")));
    device.submit("stuck", [&] { task_end = this_task::await(forgotten); });
  }
  EXPECT_EQ(host_end.code(), ErrorCode::cancelled);
  EXPECT_EQ(task_end.code(), ErrorCode::cancelled);
}

// S18: a device that was never told is named, whoever submitted, and though nobody waits for it
TEST(SimulationTest, DevicesThatGotNoTurnAreNamed) {
  for (const bool from_a_host : {false, true}) {
    std::vector<std::string> lines;
    set_log_hook([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
    bool ran = false;
    {
      SimulationOptions options = quiet(1);
      options.lost_turns_one_in = 1;
      Simulation simulation(options);
      const TaskDevice device = simulation.scheduler().new_device("lost");
      const auto submit = [&] { device.submit("task", [&] { ran = true; }); };
      if (from_a_host) {
        simulation.host("host", submit);
      } else {
        submit();
      }
      EXPECT_THAT(simulation.run().status.to_string(),
                  AllOf(HasSubstr("tasks were left: lost"), HasSubstr("1 queued")));
      EXPECT_FALSE(ran);
    }
    set_log_hook({});
    EXPECT_THAT(lines, testing::Each(testing::Not(HasSubstr("task ''"))));
  }
}

// S18
TEST(SimulationTest, HostsThatThrowFailIt) {
  Simulation simulation(quiet(1));
  simulation.host("bad", [] { throw std::runtime_error("no luck"); });
  EXPECT_THAT(simulation.run().status.to_string(), AllOf(HasSubstr("'bad'"), HasSubstr("no luck")));
}

// S18
TEST(SimulationTest, AskingForTooMuchIsRefused) {
  Simulation simulation(quiet(1));
  try {
    const Simulation second;
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::failed_precondition);
  }
  sched::DeviceOptions options;
  options.mode = sched::Mode::simulated;
  Scheduler real;
  try {
    static_cast<void>(real.new_device(options));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.what(), HasSubstr("Simulation"));
  }
  SimulationOptions endless = quiet(1);
  endless.steps_max = 1000;
  std::thread([&] {
    Simulation other(endless);  // belongs to another thread
    bool stop = false;
    other.host("spins", [&] {
      while (!stop) other.yield();
    });
    EXPECT_THAT(other.run().status.to_string(), HasSubstr("1000 steps"));
    stop = true;
  }).join();
}

// S18, S7: handles may outlive the simulation
TEST(SimulationTest, DevicesOutliveIt) {
  std::optional<TaskDevice> device;
  Event event;
  {
    Simulation simulation(quiet(1));
    device = simulation.scheduler().new_device("work");
    event = device->submit("task", [] {});
  }
  EXPECT_TRUE(event.done());
  EXPECT_EQ(device->submit("late", [] {}).status().code(), ErrorCode::unavailable);
  EXPECT_TRUE(device->is_idle());
}

// S18: also inside a task of a real device, which it does not take for its own
TEST(SimulationTest, RunsInsideATask) {
  Scheduler real;
  const TaskDevice outer = real.new_device("outer");
  Status end;
  outer.submit("simulate", [&] {
    Simulation simulation(quiet(5));
    const TaskDevice device = simulation.scheduler().new_device("inner");
    int ran = 0;
    simulation.host("host", [&] { end = device.submit("task", [&] { ++ran; }).wait(); });
    EXPECT_TRUE(simulation.run().status.ok());
    EXPECT_EQ(ran, 1);
  });
  EXPECT_TRUE(outer.await().ok());
  EXPECT_TRUE(end.ok());
}

}  // namespace
}  // namespace heddle
