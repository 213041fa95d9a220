// Kernels in parts in simulations: a seed decides which of the parts that have begun runs next, and
// what other devices do between two. HEDDLE_TEST_SEEDS=n looks at so many seeds, HEDDLE_TEST_SEED=s
// at those from s on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "heddle/simulation.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/runtime/parts_fixture.hpp"

namespace heddle::rt {
namespace {

using sched::Mode;

SimulationOptions of_seed(std::uint64_t seed, unsigned width) {
  SimulationOptions options;
  options.seed = seed;
  options.width = width;
  options.faults.fill(false);
  return options;
}

struct Played {
  std::vector<GivenParts::One> all;
  heddle_kernel_status said{};
  int tasks_between = 0;  // of another device, once a part had begun and before the last
  std::uint64_t hash = 0;
};

/// A kernel of twenty parts, some of which fail, beside tasks of another device.
Played play(std::uint64_t seed, unsigned width) {
  Simulation simulation(of_seed(seed, width));
  PartsLaunch launch(simulation.scheduler(), Mode::simulated);
  const sched::TaskDevice other = simulation.scheduler().new_device("other");
  launch.given.each = [](std::uint32_t part) {
    return heddle_kernel_status{part % 4 == 3 ? static_cast<std::int32_t>(part) : 0, 0};
  };
  Played played;
  simulation.host("host", [&] {
    const Event ran = launch.submit(20);
    for (int k = 0; k < 10; ++k) {
      other.submit("other", [&] {
        if (launch.given.size() > 0 && launch.given.size() < std::min(20U, 4 * width))
          ++played.tasks_between;
      });
    }
    EXPECT_TRUE(ran.wait().ok());
    static_cast<void>(other.await());
  });
  const SimulationReport report = simulation.run();
  EXPECT_TRUE(report.status.ok()) << report.status.to_string();
  EXPECT_TRUE(launch.given.are_whole(std::min(20U, 4 * width)));
  played.all = launch.given.all;
  played.said = launch.said;
  played.hash = report.hash;
  return played;
}

std::vector<std::uint32_t> order_of(const Played& played) {
  std::vector<std::uint32_t> order;
  for (const auto& one : played.all) order.push_back(one.part);
  return order;
}

// S18, S19: equal seeds run the parts in the same order, others in another; no part waits while
// more later ones begin than there are processors; others go on between two
TEST(PartsSimulationTest, SeedsDecideTheOrder) {
  std::set<std::vector<std::uint32_t>> orders;
  int between = 0;
  const std::uint64_t first = test::from_environment("HEDDLE_TEST_SEED", 1);
  const std::uint64_t seeds = test::seeds(200);
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    const unsigned width = 2 + seed % 4;
    const Played played = play(seed, width), again = play(seed, width);
    const std::vector<std::uint32_t> order = order_of(played);
    ASSERT_EQ(order, order_of(again)) << "seed " << seed;
    ASSERT_EQ(played.hash, again.hash) << "seed " << seed;
    ASSERT_EQ(played.said.code, 3) << "seed " << seed << ": the first that fails";
    for (std::uint32_t k = 0; k < order.size(); ++k)
      ASSERT_LE(order[k], k + width - 1) << "seed " << seed;
    orders.insert(order);
    between += played.tasks_between;
  }
  EXPECT_GT(orders.size(), std::min<std::size_t>(seeds, 1000) / 2);
  EXPECT_GT(between, static_cast<int>(std::min<std::uint64_t>(seeds, 1'000'000)) / 2);
}

// S18, S19: parts that have begun have scratch of their own, as many as the width
TEST(PartsSimulationTest, PartsThatHaveBegunHaveTheirOwnScratch) {
  for (const unsigned width : {1U, 2U, 5U}) {
    std::set<std::size_t> offsets;
    for (std::uint64_t seed = 1; seed <= 50; ++seed) {
      Simulation simulation(of_seed(seed, width));
      PartsLaunch launch(simulation.scheduler(), Mode::simulated);
      ASSERT_TRUE(launch.submit(20).wait().ok());
      const auto* const others = reinterpret_cast<const std::byte*>(&launch.others);
      for (void* const at : launch.given.scratch())
        offsets.insert(at == launch.first
                           ? 0
                           : static_cast<std::size_t>(static_cast<std::byte*>(at) - others));
    }
    std::set<std::size_t> wanted{0};
    for (std::size_t member = 1; member < width; ++member) wanted.insert((member - 1) * 64 + 16);
    EXPECT_EQ(offsets, wanted);
  }
}

// S12, S18: a stop request by another host comes between parts
TEST(PartsSimulationTest, StopsBetweenParts) {
  std::set<std::size_t> ran;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    Simulation simulation(of_seed(seed, 8));
    PartsLaunch launch(simulation.scheduler(), Mode::simulated);
    const Event event = launch.submit(32, true);
    simulation.host("stops", [&] {
      while (launch.given.size() < 3 && !event.done()) simulation.yield();
      launch.device.cancel_pending();
    });
    EXPECT_TRUE(simulation.run().status.ok());
    EXPECT_TRUE(event.done());
    const std::size_t parts = launch.given.size();
    EXPECT_EQ(launch.said.code, parts < 32 && parts > 0 ? HEDDLE_KERNEL_STOPPED : 0);
    ran.insert(parts);
  }
  EXPECT_GT(ran.size(), 10U);
}

}  // namespace
}  // namespace heddle::rt
