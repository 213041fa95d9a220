// Teams: every part runs once, whoever helps, sleeps, comes, goes, cancels or nests meanwhile.
#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <stop_token>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/scheduler/team_fixture.hpp"

namespace heddle::sched {
namespace {

using namespace std::chrono_literals;

INSTANTIATE_TEST_SUITE_P(Widths, TeamWidthTest, testing::Values(1, 2, 3, 7, 16));

TEST_P(TeamWidthTest, EveryPartRunsOnce) {
  Team team;
  Crew crew("crew", GetParam() - 1);
  assign_all(crew, &team);
  Counts counts;
  for (std::uint32_t parts = 0; parts <= Counts::parts_max; ++parts) {
    ASSERT_EQ(run(team, parts, counts), 0U);
    ASSERT_TRUE(counts.were_once(parts)) << parts;
  }
  assign_all(crew, nullptr);
}

// Parts that wait for each other: all helpers come, once they spin and once they sleep
TEST_P(TeamWidthTest, AllHelpersTakePart) {
  Team team;
  Crew crew("crew", GetParam() - 1);
  assign_all(crew, &team);
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(all_meet(team, GetParam())) << round;
    if (round % 4 == 3) std::this_thread::sleep_for(1ms);
  }
  assign_all(crew, nullptr);
}

// A visitor is a member that a helper of a crew may have been: it waits until that has left
TEST(TeamVisitsTest, CrewsLeaveBeforeVisitorsCome) {
  struct Nobody final : Visitors {
    void come(std::uint32_t /*parts*/) noexcept override {}
  } nobody;
  Team team;
  Crew crew("crew", 2);
  assign_all(crew, &team);
  team.be_visited(nobody);
  EXPECT_FALSE(team.is_left_to_visitors());
  std::atomic<int> inside{0};
  std::atomic<bool> ends{false};
  const auto part = [&](std::uint32_t /*part*/, std::uint32_t /*member*/) {
    ++inside;
    while (!ends) std::this_thread::yield();
  };
  std::thread owner([&] { run(team, 3, part); });
  while (inside < 3) std::this_thread::yield();
  assign_all(crew, nullptr);
  EXPECT_FALSE(team.is_left_to_visitors()) << "they are at a part";
  ends = true;
  owner.join();
  const auto end = std::chrono::steady_clock::now() + 30s;
  while (!team.is_left_to_visitors() && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_TRUE(team.is_left_to_visitors());
}

// Nobody spins: each helper is woken, and the owner too, also after they were away
TEST_P(TeamWidthTest, SleepersAreWoken) {
  Team team(0ns);
  Crew crew("crew", GetParam() - 1, {}, 0ns);
  const auto late = [](std::uint32_t part, std::uint32_t /*member*/) {
    if (part != 0) std::this_thread::sleep_for(100us);
  };
  for (int round = 0; round < 100; ++round) {
    if (round % 8 == 0) assign_all(crew, nullptr);
    assign_all(crew, &team);
    if (round % 2 == 0) std::this_thread::sleep_for(200us);
    ASSERT_TRUE(all_meet(team, GetParam())) << round;
    ASSERT_EQ(run(team, GetParam(), late), 0U);
  }
  assign_all(crew, nullptr);
}

// Helpers are assigned to one team, the other, and none, while both are at work
TEST_P(TeamWidthTest, HelpersComeAndGo) {
  std::array<Team, 2> teams;
  Crew crew("crew", GetParam() - 1, {}, 1us);
  std::atomic<bool> stop{false};
  std::atomic<int> wrong{0};
  std::vector<std::thread> owners;
  for (Team& team : teams) {
    owners.emplace_back([&] {
      Counts counts;
      for (std::uint32_t k = 0; !stop; ++k) {
        const std::uint32_t parts = k % 7;
        if (run(team, parts, counts) != 0 || !counts.were_once(parts)) ++wrong;
      }
    });
  }
  for (std::uint32_t k = 0; k < 3000; ++k) {
    for (std::uint32_t helper = 0; helper < crew.size(); ++helper) {
      const std::uint32_t which = (k + helper) * 2654435761U >> 30;
      crew.assign(helper, which < 2 ? &teams[which] : nullptr);
    }
    if (k % 8 == 0) std::this_thread::yield();
  }
  assign_all(crew, nullptr);
  stop = true;
  for (std::thread& owner : owners) owner.join();
  EXPECT_EQ(wrong, 0);
}

// Two and more owners: one has the helpers, the others are alone
TEST_P(TeamWidthTest, SeveralOwners) {
  Team team;
  Crew crew("crew", GetParam() - 1);
  assign_all(crew, &team);
  std::atomic<int> wrong{0};
  std::vector<std::thread> owners;
  for (int k = 0; k < 3; ++k) {
    owners.emplace_back([&] {
      Counts counts;
      for (std::uint32_t round = 0; round < 2000; ++round) {
        const std::uint32_t parts = round % 9;
        if (run(team, parts, counts) != 0 || !counts.were_once(parts)) ++wrong;
      }
    });
  }
  for (std::thread& owner : owners) owner.join();
  EXPECT_EQ(wrong, 0);
  assign_all(crew, nullptr);
}

TEST_P(TeamWidthTest, NestedRunsAreAlone) {
  Team team;
  Crew crew("crew", GetParam() - 1);
  assign_all(crew, &team);
  std::atomic<int> wrong{0};
  std::atomic<std::uint32_t> inner_parts{0};
  const auto outer = [&](std::uint32_t /*part*/, std::uint32_t /*member*/) {
    std::uint32_t next = 0;
    const auto self = std::this_thread::get_id();
    const auto inner = [&](std::uint32_t part, std::uint32_t member) {
      if (part != next++ || member != 0 || self != std::this_thread::get_id()) ++wrong;
      ++inner_parts;
    };
    if (run(team, 5, inner) != 0) ++wrong;
  };
  for (int round = 0; round < 200; ++round) ASSERT_EQ(run(team, 8, outer), 0U);
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(inner_parts, 200U * 8 * 5);
  assign_all(crew, nullptr);
}

/// A team with one helper that is there.
class TeamTest : public testing::Test {
 protected:
  TeamTest() { crew_.assign(0, &team_); }
  ~TeamTest() override { crew_.assign(0, nullptr); }
  Team team_;
  Crew crew_{"crew", 1};
};

// A helper that does not get on holds up its part, and no other
TEST_F(TeamTest, BlockedHelperDelaysOnePart) {
  std::atomic<std::uint32_t> by_helper{0}, by_owner{0};
  bool helper_came = true, others_ran = true;
  const auto part = [&](std::uint32_t number, std::uint32_t member) {
    if (member != 0) {
      ++by_helper;
      others_ran &= test::before_long([&] { return by_owner == 99; });
      return;
    }
    ++by_owner;
    if (number == 0) helper_came = test::before_long([&] { return by_helper != 0; });
  };
  EXPECT_EQ(run(team_, 100, part), 0U);
  EXPECT_TRUE(helper_came);
  EXPECT_TRUE(others_ran);
  EXPECT_EQ(by_helper, 1U);
}

// From its next part on
TEST_F(TeamTest, HelperLeavesBetweenParts) {
  std::atomic<std::uint32_t> by_helper{0};
  std::atomic<bool> gone{false};
  bool helper_came = true;
  const auto part = [&](std::uint32_t number, std::uint32_t member) {
    if (member != 0) {
      ++by_helper;
      crew_.assign(0, nullptr);
      gone = true;
    } else if (number == 0) {
      helper_came = test::before_long([&] { return gone.load(); });
    } else {
      ::sched_yield();
    }
  };
  EXPECT_EQ(run(team_, 1000, part), 0U);
  EXPECT_TRUE(helper_came);
  EXPECT_EQ(by_helper, 1U);
  EXPECT_FALSE(team_.has_helpers() && !test::before_long([&] { return !team_.has_helpers(); }));
}

TEST_F(TeamTest, MembersAndOrder) {
  Meeting meeting(2);
  std::vector<std::uint32_t> by[2];
  const auto part = [&](std::uint32_t number, std::uint32_t member) {
    by[member].push_back(number);
    if (number < 2) meeting(number, member);
  };
  EXPECT_EQ(run(team_, 50, part), 0U);
  EXPECT_FALSE(meeting.failed);
  EXPECT_EQ(by[0].size() + by[1].size(), 50U);
  EXPECT_EQ(by[0].front(), 0U);
  EXPECT_EQ(by[1].front(), 1U);
  for (const auto& numbers : by) EXPECT_TRUE(std::ranges::is_sorted(numbers));
}

// Whoever asks, and whoever notices: what begun ran to its end, the rest does not run at all
TEST_F(TeamTest, CancelDropsWhatWasNotClaimed) {
  for (const std::uint32_t asker : {0U, 1U}) {
    for (const std::uint32_t last : {0U, 1U, 2U, 40U, 99U}) {
      std::stop_source source;
      Counts counts;
      Meeting meeting(2);
      std::atomic<std::uint32_t> ran{0}, late{0};
      const auto part = [&](std::uint32_t number, std::uint32_t member) {
        if (source.stop_requested()) ++late;
        counts(number, member);
        if (number < 2 && last > 0) meeting(number, member);
        ++ran;
        if (number >= last && (member == asker || number > last + 2)) source.request_stop();
      };
      const std::uint32_t dropped = run(team_, 100, part, source.get_token());
      ASSERT_FALSE(meeting.failed);
      ASSERT_EQ(ran + dropped, 100U);
      // The asker ran a part after one that the other had claimed, and not begun.
      ASSERT_TRUE(counts.were_the_first(ran, 1)) << asker << ' ' << last;
      // One thread each may have looked before.
      ASSERT_LE(late, 1U);
      ASSERT_EQ(run(team_, 100, counts), 0U);
      ASSERT_TRUE(counts.were_once(100));
    }
  }
}

// The helper drops the rest while the owner is at its part
TEST_F(TeamTest, HelperNoticesCancel) {
  std::stop_source source;
  std::atomic<std::uint32_t> ran{0};
  bool asked = true;
  const auto part = [&](std::uint32_t number, std::uint32_t member) {
    ++ran;
    if (member != 0) source.request_stop();
    if (number == 0) {
      asked = test::before_long([&] { return source.stop_requested(); });
      std::this_thread::sleep_for(20ms);
    }
  };
  EXPECT_EQ(run(team_, 100, part, source.get_token()), 98U);
  EXPECT_TRUE(asked);
  EXPECT_EQ(ran, 2U);
  std::stop_source other;
  EXPECT_EQ(run(team_, 100, part, other.get_token()) + ran - 2, 100U);
}

TEST_F(TeamTest, CancelBeforeAndAlone) {
  std::stop_source source;
  std::uint32_t ran = 0;
  const auto part = [&](std::uint32_t number, std::uint32_t /*member*/) {
    ++ran;
    if (number == 3) source.request_stop();
  };
  crew_.assign(0, nullptr);
  ASSERT_TRUE(test::before_long([&] { return !team_.has_helpers(); }));
  std::stop_source other;
  EXPECT_EQ(run(team_, 10, part, other.get_token()), 0U);
  EXPECT_EQ(std::exchange(ran, 0), 10U);
  source = std::stop_source();
  EXPECT_EQ(run(team_, 10, part, source.get_token()), 6U);
  EXPECT_EQ(ran, 4U);
  EXPECT_EQ(run(team_, 10, part, source.get_token()), 10U);
  crew_.assign(0, &team_);
  EXPECT_EQ(run(team_, 10, part, source.get_token()), 10U);
  EXPECT_EQ(run(team_, 1, part, source.get_token()), 1U);
  EXPECT_EQ(ran, 4U);
}

}  // namespace
}  // namespace heddle::sched
