// Tasks in parts in simulations (S24, S18): a seed decides which of the parts that have begun goes
// first, and what other devices do between them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "heddle/simulation.hpp"
#include "tests/unit/scheduler/parallel_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::TaskDevice;
using testing::HasSubstr;

struct Seen {
  std::vector<std::size_t> order;  // of parts
  int tasks_between = 0;           // of the other device, once a part had ended and before the last
  Status status;
  std::uint64_t hash = 0;
};

/// Twenty parts on one device, and tasks on another; parts of the bits of `failing` fail.
Seen simulate_parts(std::uint64_t seed, std::uint64_t failing = 0, bool faults = false) {
  SimulationOptions options;
  options.seed = seed;
  if (!faults) options.faults.fill(false);
  Simulation simulation(options);
  Seen seen;
  simulation.host("host", [&] {
    const TaskDevice device = simulation.scheduler().new_device("work"),
                     other = simulation.scheduler().new_device("other");
    const Event rows = device.submit_parallel(
        "rows", 20,
        [&](std::size_t from, std::size_t /*to*/) {
          seen.order.push_back(from);
          return (failing >> from & 1) != 0 ? Status(ErrorCode::not_found, std::to_string(from))
                                            : Status();
        },
        by(1));
    for (int k = 0; k < 10; ++k) {
      other.submit("other", [&] {
        if (!seen.order.empty() && seen.order.size() < 20) ++seen.tasks_between;
      });
    }
    seen.status = rows.wait();
    static_cast<void>(other.await());
  });
  const SimulationReport report = simulation.run();
  EXPECT_TRUE(report.status.ok() || faults) << report.status.to_string();
  seen.hash = report.hash;
  return seen;
}

// S24, S18: the same seed runs the same parts in the same order; seeds differ, and let others in
TEST(ParallelSimulationTest, SeedsDecideTheOrder) {
  std::set<std::vector<std::size_t>> orders;
  int between = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Seen seen = simulate_parts(seed), again = simulate_parts(seed);
    ASSERT_TRUE(seen.status.ok());
    EXPECT_EQ(seen.order, again.order);
    EXPECT_EQ(seen.hash, again.hash);
    orders.insert(seen.order);
    between += seen.tasks_between;
    // As on four processors: no part waits while more than two later ones begin.
    std::vector<std::size_t> sorted = seen.order;
    std::ranges::sort(sorted);
    for (std::size_t k = 0; k < 20; ++k) EXPECT_EQ(sorted[k], k);
    for (std::size_t k = 0; k < 20; ++k) EXPECT_LE(seen.order[k], k + 3);
  }
  EXPECT_GT(orders.size(), 90U);
  EXPECT_GT(between, 100);
}

// S24: the first part that fails is told, whatever the order
TEST(ParallelSimulationTest, LowestFailureIsTold) {
  std::set<std::size_t> ran;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Seen seen = simulate_parts(seed, 0b1111'0010'0000);
    EXPECT_EQ(seen.status.root().message(), "5");
    EXPECT_THAT(seen.status.to_string(), HasSubstr("part 6 of 20, indices [5, 6), failed"));
    ran.insert(seen.order.size());
    for (std::size_t part = 0; part < 6; ++part)
      EXPECT_TRUE(std::ranges::count(seen.order, part) == 1) << part;
    EXPECT_LE(seen.order.size(), 12U);  // those that had begun, of which three failed too
  }
  EXPECT_GT(ran.size(), 1U);
}

// S24, S18: the width is the option's, on any machine; of one, parts run in order
TEST(ParallelSimulationTest, WidthIsTheOptions) {
  const auto order_of = [](unsigned width) {
    SimulationOptions options;
    options.seed = 3;
    options.faults.fill(false);
    options.width = width;
    Simulation simulation(options);
    std::vector<std::size_t> order;
    const TaskDevice device = simulation.scheduler().new_device("work");
    EXPECT_TRUE(
        device
            .submit_parallel(
                "rows", 50, [&](std::size_t from, std::size_t) { order.push_back(from); }, by(1))
            .wait()
            .ok());
    return order;
  };
  EXPECT_TRUE(std::ranges::is_sorted(order_of(1)));
  EXPECT_FALSE(std::ranges::is_sorted(order_of(64)));
}

// S24, bad input
TEST(ParallelSimulationTest, WidthsThatAreNoneAreRefused) {
  for (const unsigned width : {0U, 65U}) {
    const auto opens = [width] {
      SimulationOptions options;
      options.width = width;
      const Simulation simulation(options);
    };
    EXPECT_THAT(opens, testing::ThrowsMessage<Error>(
                           HasSubstr("SimulationOptions::width is " + std::to_string(width))));
  }
  const Simulation simulation;  // what was refused left nothing behind
}

// S24, S12: a stop request by another host comes between parts
TEST(ParallelSimulationTest, StopsBetweenParts) {
  std::set<std::size_t> ran;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    SimulationOptions options;
    options.seed = seed;
    options.faults.fill(false);
    Simulation simulation(options);
    std::size_t parts = 0;
    Event rows;
    const TaskDevice device = simulation.scheduler().new_device("work");
    rows = device.submit_parallel("rows", 100, [&](std::size_t, std::size_t) { ++parts; }, by(1));
    simulation.host("stops", [&] {
      while (parts < 5 && !rows.done()) simulation.yield();
      device.cancel_pending();
    });
    EXPECT_TRUE(simulation.run().status.ok());
    EXPECT_TRUE(rows.done());
    if (rows.status().code() == ErrorCode::cancelled) {
      EXPECT_LT(parts, 100U);
    } else {
      EXPECT_EQ(parts, 100U);
    }
    ran.insert(parts);
  }
  EXPECT_GT(ran.size(), 10U);
}

// S24, S18: under faults each index runs once at most, and the simulation's own checks hold
TEST(ParallelSimulationTest, SurvivesFaults) {
  int whole = 0;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    Seen seen;
    try {
      seen = simulate_parts(seed, 0, true);
    } catch (const Error&) {  // no device, says the simulation
      continue;
    }
    std::vector<std::size_t> sorted = seen.order;
    std::ranges::sort(sorted);
    EXPECT_TRUE(std::ranges::adjacent_find(sorted) == sorted.end());
    if (seen.status.ok() && sorted.size() == 20) ++whole;
  }
  EXPECT_GT(whole, 100);
}

}  // namespace
}  // namespace heddle
