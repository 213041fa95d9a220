// The race of candidates, on clocks that are made up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <optional>
#include <vector>

#include "jit/tune/race.hpp"

namespace heddle::jit {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using testing::ElementsAre;

/// Candidates that take so long, each time, on a clock that nothing else moves.
class FakeRace {
 public:
  explicit FakeRace(std::vector<double> seconds) : seconds_(std::move(seconds)) {}

  RaceResult run(nanoseconds budget, bool exhaustive = false) {
    return race(
        seconds_.size(), [this](std::size_t k) { return once(k); }, [this] { return now_; },
        {.until = budget, .exhaustive = exhaustive});
  }
  std::optional<double> once(std::size_t k) {
    order.push_back(k);
    if (fails == k) return std::nullopt;
    const double seconds =
        seconds_[k] * (disturbed && order.size() > 20 && order.size() < 29 ? 10 : 1);
    now_ += std::chrono::duration_cast<nanoseconds>(std::chrono::duration<double>(seconds));
    return seconds;
  }

  std::vector<std::size_t> order;
  std::optional<std::size_t> fails;
  bool disturbed = false;

 private:
  const std::vector<double> seconds_;
  nanoseconds now_{0};
};

constexpr nanoseconds long_time = std::chrono::hours(1);

// W3: the fastest is taken
TEST(RaceTest, TakesTheFastest) {
  FakeRace all({1, 0.9, 0.7, 0.71, 2});
  const RaceResult result = all.run(long_time);
  EXPECT_EQ(result.best, 2u);
  EXPECT_NEAR(result.all[2].ratio(), 0.7, 1e-9);
  EXPECT_EQ(result.all[2].ratios.size(), rounds_max);
  EXPECT_NEAR(result.first_seconds, 1, 1e-9);
}

// W3: the model's choice stays where others gain next to nothing
TEST(RaceTest, SmallGainsAreNone) {
  EXPECT_EQ(FakeRace({1, 0.99}).run(long_time).best, 0u);
  EXPECT_EQ(FakeRace({1, 0.97}).run(long_time).best, 1u);
  EXPECT_EQ(FakeRace({1, 1.5}).run(long_time).best, 0u);
}

// W3: what is too slow is dropped, the sooner the slower; not where all is to be known
TEST(RaceTest, SlowOnesAreDropped) {
  const std::vector<double> seconds{1, 0.7, 0.72, 0.75, 0.9, 3};
  const RaceResult result = FakeRace(seconds).run(long_time);
  std::vector<std::size_t> rounds;
  for (const Raced& each : result.all) rounds.push_back(each.ratios.size());
  EXPECT_EQ(rounds[1], rounds_max);
  EXPECT_EQ(rounds[2], rounds_max);
  EXPECT_EQ(rounds[3], 15u);
  EXPECT_EQ(rounds[4], 7u);
  EXPECT_EQ(rounds[5], rounds_min);
  EXPECT_FALSE(result.all[2].dropped);
  EXPECT_TRUE(result.all[3].dropped);
  for (const Raced& each : FakeRace(seconds).run(long_time, true).all) {
    EXPECT_FALSE(each.dropped);
    EXPECT_GE(each.ratios.size(), rounds_max);
  }
}

// W3: the best may have been lucky in its first rounds: those that were dropped for it run again
TEST(RaceTest, LuckDoesNotLast) {
  std::vector<std::size_t> runs(3);
  std::chrono::milliseconds now{0};
  const auto run = [&](std::size_t k) -> std::optional<double> {
    ++now;
    ++runs[k];
    if (k == 1) return runs[1] <= 3 ? 0.1 : 0.95;
    return k == 0 ? 1 : 0.6;
  };
  const RaceResult result = race(3, run, [&now] { return now; }, {.until = std::chrono::hours(1)});
  EXPECT_EQ(result.best, 2u);
  EXPECT_GT(result.all[2].ratios.size(), 20u);
}

// W3: each runs right beside the model's choice, before it and after it in turn
TEST(RaceTest, RunsInPairs) {
  FakeRace all({1, 1, 1});
  all.run(std::chrono::seconds(8));
  EXPECT_THAT(all.order, ElementsAre(1, 0, 0, 2, 0, 1, 2, 0));
  FakeRace disturbed({1, 0.8});
  disturbed.disturbed = true;
  const RaceResult result = disturbed.run(long_time);
  EXPECT_NEAR(result.all[1].ratio(), 0.8, 1e-9);
}

// W3: no run begins when the time is over
TEST(RaceTest, EndsInTime) {
  FakeRace all({1, 0.5, 0.5});
  const RaceResult result = all.run(std::chrono::seconds(10));
  EXPECT_EQ(all.order.size(), 14u) << "pairs of 1.5 s";
  EXPECT_EQ(result.best, 1u);
}

// W3, bad input: a budget that is too small for one candidate decides nothing
TEST(RaceTest, TooShortDecidesNothing) {
  FakeRace none({1, 0.5});
  EXPECT_EQ(none.run(nanoseconds(0)).best, std::nullopt);
  EXPECT_TRUE(none.order.empty());
  EXPECT_EQ(FakeRace({1, 0.5}).run(std::chrono::seconds(3)).best, std::nullopt) << "two rounds";
  EXPECT_EQ(FakeRace({1, 0.5}).run(std::chrono::seconds(4)).best, 1u);
}

// W3: what cannot run is never asked again, and never taken
TEST(RaceTest, FailuresAreLeftOut) {
  FakeRace all({1, 0.5, 0.6});
  all.fails = 1;
  EXPECT_EQ(all.run(long_time).best, 2u);
  EXPECT_EQ(std::ranges::count(all.order, 1u), 1);
}

// W3: alone, there is nothing to race
TEST(RaceTest, AloneIsNoRace) {
  FakeRace alone({1});
  EXPECT_EQ(alone.run(long_time).best, std::nullopt);
  EXPECT_TRUE(alone.order.empty());
}

}  // namespace
}  // namespace heddle::jit
