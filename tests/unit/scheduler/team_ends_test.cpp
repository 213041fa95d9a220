// Teams: ends of teams and crews in any order, what crews refuse, and forked children.
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <new>
#include <optional>
#include <thread>

#include "heddle/status.hpp"
#include "scheduler/sanitizers.hpp"
#include "scheduler/threads/processors.hpp"
#include "tests/support/forked.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/team_fixture.hpp"

namespace heddle::sched {
namespace {

using namespace std::chrono_literals;

class TeamEndsTest : public TeamWidthTest {};
INSTANTIATE_TEST_SUITE_P(Widths, TeamEndsTest, testing::Values(1, 2, 3, 7, 16));

// The team goes as soon as assign() has returned, whatever its helpers are at
TEST_P(TeamEndsTest, TeamGoesFirst) {
  Crew crew("crew", GetParam() - 1, {}, 5us);
  Counts counts;
  for (std::uint32_t round = 0; round < 300; ++round) {
    auto team = std::make_unique<Team>();
    assign_all(crew, team.get());
    if (round % 3 == 0) {
      ASSERT_EQ(run(*team, 20, counts), 0U);
      ASSERT_TRUE(counts.were_once(20));
    } else if (round % 3 == 1) {
      std::this_thread::sleep_for(50us);
    }
    assign_all(crew, nullptr);
  }
}

TEST_P(TeamEndsTest, CrewGoesFirst) {
  Team team;
  Counts counts;
  for (std::uint32_t round = 0; round < 20; ++round) {
    {
      Crew crew("crew", GetParam() - 1, {}, 5us);
      assign_all(crew, &team);
      ASSERT_TRUE(round % 2 == 0 || all_meet(team, GetParam()));
    }
    ASSERT_FALSE(team.has_helpers());
    ASSERT_EQ(run(team, 20, counts), 0U);
    ASSERT_TRUE(counts.were_once(20));
  }
}

// Some of its helpers asleep, some in parts
TEST_P(TeamEndsTest, CrewGoesWithinRuns) {
  Team team;
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::thread owner([&] {
    Counts counts;
    for (std::uint32_t k = 0; !stop; ++k) {
      const std::uint32_t parts = 2 + k % 9;
      if (run(team, parts, counts) != 0 || !counts.were_once(parts)) ++wrong;
      if (k % 16 == 0) ::sched_yield();
    }
  });
  for (int round = 0; round < 50; ++round) {
    Crew crew("crew", GetParam() - 1, {}, 0ns);
    assign_all(crew, &team);
    std::this_thread::sleep_for(20us);
  }
  stop = true;
  owner.join();
  EXPECT_EQ(wrong, 0);
}

// A helper that is assigned again, from within its last part, goes all the same
TEST(CrewTest, NothingIsAssignedAfterTheEnd) {
  Team team;
  std::optional<Crew> crew(std::in_place, "crew", 1);
  crew->assign(0, &team);
  Crew* const ending = &*crew;
  std::atomic<bool> begun{false};
  const auto part = [&](std::uint32_t /*number*/, std::uint32_t member) {
    if (member == 0) {
      EXPECT_TRUE(test::before_long([&] { return begun.load(); }));
      return;
    }
    begun = true;
    std::this_thread::sleep_for(20ms);
    ending->assign(0, &team);
  };
  std::thread owner([&] { EXPECT_EQ(run(team, 2, part), 0U); });
  EXPECT_TRUE(test::before_long([&] { return begun.load(); }));
  crew.reset();
  owner.join();
  EXPECT_FALSE(team.has_helpers());
}

TEST(CrewTest, RefusesWhatItCannotHave) {
  const LiveThreads threads;
  EXPECT_THROW(Crew("many", helpers_max + 1), Error);
  EXPECT_THROW(Crew("bound", 2, {allowed_processors().front(), 1'000'000}), Error);
  EXPECT_TRUE(threads.others_end());
}

// Out of memory at each step: none of the threads stays
TEST(CrewTest, StartsAllOrNone) {
  const LiveThreads threads;
  std::uint64_t granted = 0;
  for (bool started = false; !started; ++granted) {
    ASSERT_LT(granted, 100U);
    try {
      const NoMemory from_here(granted);
      Crew crew("crew", 3);
      started = true;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::unavailable);
    } catch (const std::bad_alloc&) {
    }
    ASSERT_TRUE(threads.others_end());
  }
  EXPECT_GT(granted, 3U);
}

TEST(CrewTest, HelpersAreBound) {
  const unsigned processor = allowed_processors().back();
  Team team;
  Crew crew("bound", 1, {processor});
  crew.assign(0, &team);
  Meeting meeting(2);
  int seen = -1;
  const auto part = [&](std::uint32_t number, std::uint32_t member) {
    if (member == 1) seen = ::sched_getcpu();
    meeting(number, member);
  };
  EXPECT_EQ(run(team, 2, part), 0U);
  EXPECT_EQ(seen, static_cast<int>(processor));
  crew.assign(0, nullptr);
}

// Threads of a forked process may hold locks of TSan's.
#ifndef HEDDLE_TSAN
// The child's part of it ends without the helpers, and what it opens itself has some
TEST(TeamForkTest, ChildIsAlone) {
  auto team = std::make_unique<Team>();
  auto crew = std::make_unique<Crew>("crew", 3);
  assign_all(*crew, team.get());
  ASSERT_TRUE(all_meet(*team, 4));
  EXPECT_TRUE(in_forked_child([&] {
    Counts counts;
    bool good = !team->has_helpers() && run(*team, 100, counts) == 0 && counts.were_once(100);
    assign_all(*crew, nullptr);
    assign_all(*crew, team.get());
    good &= run(*team, 100, counts) == 0 && counts.were_once(100);
    Team fresh;
    assign_all(*crew, &fresh);
    good &= !fresh.has_helpers();
    crew.reset();
    team.reset();
    return good;
  }));
  EXPECT_TRUE(all_meet(*team, 4));
  assign_all(*crew, nullptr);
}

// The helper's part, which the child lacks, counts as not run
TEST(TeamForkTest, ChildForkedWithinAPart) {
  Team team;
  Crew crew("crew", 1);
  crew.assign(0, &team);
  Meeting meeting(2);
  std::atomic<bool> forked{false};
  std::atomic<std::uint32_t> others{0};
  pid_t child = -1;
  const auto part = [&](std::uint32_t number, std::uint32_t member) {
    if (number >= 2) ++others;
    if (number < 2) meeting(number, member);
    if (number == 1 && !test::before_long([&] { return forked.load(); })) meeting.failed = true;
    if (number != 0) return;
    child = ::fork();
    if (child == 0) ::alarm(20);
    forked = true;
  };
  const std::uint32_t dropped = run(team, 10, part);
  if (child == 0) {
    const bool good = dropped == 1 && others == 8 && !team.has_helpers();
    ::syscall(SYS_exit_group, good ? 0 : 1);
  }
  EXPECT_EQ(dropped, 0U);
  EXPECT_FALSE(meeting.failed);
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  crew.assign(0, nullptr);
}
#endif

}  // namespace
}  // namespace heddle::sched
