// Teams: what run() asks of the system, counted; and with that, whom it wakes.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/call_counter.hpp"
#include "tests/unit/scheduler/team_fixture.hpp"

namespace heddle::sched {
namespace {

using namespace std::chrono_literals;

constexpr auto nothing = [](std::uint32_t /*part*/, std::uint32_t /*member*/) {};

/// Whether so many helpers of "crew" sleep soon, as the kernel sees it.
bool fall_asleep(int count) {
  return test::before_long([&] {
    int asleep = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
      std::ifstream file(task.path() / "stat");
      std::string line;
      std::getline(file, line);
      if (line.find("(crew/") != std::string::npos && line.find(") S ") != std::string::npos)
        ++asleep;
    }
    return asleep == count;
  });
}

/// Calls of the system within a run of so many parts.
std::uint64_t calls_of_run(Team& team, std::uint32_t parts) {
  const std::uint64_t before = system_calls();
  EXPECT_EQ(run(team, parts, nothing), 0U);
  return system_calls() - before;
}

TEST(TeamCallsTest, NoneWhileHelpersSpin) {
  Team team(1h);
  Crew crew("crew", 1, {}, 1h);
  crew.assign(0, &team);
  ASSERT_TRUE(all_meet(team, 2));
  const std::uint64_t locks = locks_taken(), memory = allocations();
  for (int k = 0; k < 100; ++k) ASSERT_EQ(calls_of_run(team, 4), 0U);
  EXPECT_EQ(locks_taken(), locks);
  EXPECT_EQ(allocations(), memory);
  crew.assign(0, nullptr);
}

TEST(TeamCallsTest, AsManyAreWokenAsThereArePartsFor) {
  Team team(1h);
  Crew crew("crew", 3, {}, 0ns);
  assign_all(crew, &team);
  for (const std::uint32_t parts : {2U, 3U, 4U, 9U}) {
    ASSERT_TRUE(fall_asleep(3));
    EXPECT_EQ(calls_of_run(team, parts), std::min(parts - 1, 3U));
  }
  assign_all(crew, nullptr);
}

// Who woke is awake, and those who sleep are let sleep while these will do
TEST(TeamCallsTest, WhoIsAwakeComesFirst) {
  Team team(1h);
  Crew crew("crew", 4, {}, 500ms);
  assign_all(crew, &team);
  ASSERT_TRUE(fall_asleep(4));
  ASSERT_TRUE(all_meet(team, 3));
  EXPECT_EQ(calls_of_run(team, 2), 0U);
  EXPECT_EQ(calls_of_run(team, 3), 0U);
  EXPECT_EQ(calls_of_run(team, 4), 1U);
  assign_all(crew, nullptr);
}

// Assigned elsewhere in their sleep, and back
TEST(TeamCallsTest, WhoWasAwayIsNotAsleep) {
  Team team(1h);
  Crew crew("crew", 3, {}, 500ms);
  assign_all(crew, &team);
  ASSERT_TRUE(fall_asleep(3));
  assign_all(crew, nullptr);
  ASSERT_TRUE(test::before_long([&] { return !team.has_helpers(); }));
  assign_all(crew, &team);
  const std::uint64_t calls = system_calls();
  ASSERT_TRUE(all_meet(team, 4));
  EXPECT_EQ(system_calls(), calls);
  assign_all(crew, nullptr);
}

}  // namespace
}  // namespace heddle::sched
