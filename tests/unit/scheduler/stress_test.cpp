// The short form of `heddle stress`: random graphs of tasks on real threads, in all modes. Each
// round is drawn from a seed, which failures print; HEDDLE_TEST_SEED=N runs that one round,
// HEDDLE_TEST_ROUNDS=N more of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "tests/support/seeds.hpp"
#include "tools/stress/checks.hpp"
#include "tools/stress/round.hpp"
#include "tools/stress/soak.hpp"

namespace heddle::stress {
namespace {

using namespace std::chrono_literals;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

void expect_clean_round(std::uint64_t seed, Tally& tally) {
  RoundOptions options;
  options.seed = seed;
  const RoundResult result = run_round(options);
  for (const std::string& broken : result.broken)
    ADD_FAILURE() << "HEDDLE_TEST_SEED=" << seed << ": " << broken;
  // Its threads use what a return would take away.
  if (result.stuck) std::_Exit(1);
  tally += result.tally;
}

// S1, S2, S4, S6, S7, S9, S11, S12, S13, S15, S17, S20, S23: order, one consumer, no waiter left
// behind, every task ends once, whoever ends it, all callbacks are called, traces nest
TEST(StressTest, RandomGraphsEndAndAddUp) {
  Tally tally;
  const std::uint64_t seed = test::from_environment("HEDDLE_TEST_SEED", 0);
  if (seed != 0) return expect_clean_round(seed, tally);
  const std::uint64_t last = test::from_environment("HEDDLE_TEST_ROUNDS", 60);
  for (std::uint64_t k = 1; k <= last && !testing::Test::HasFailure(); ++k)
    expect_clean_round(k, tally);
  std::fputs(tally.to_string().c_str(), stdout);
  using enum Count;
  for (const Count hit :
       {done, failed, skipped, cancelled, thrown, contained, foreign_failed, full, refused,
        shutdowns, callbacks, descriptors, traces, late, late_beside, late_dropped, late_failed}) {
    EXPECT_GT(tally[hit], 0u) << "count " << static_cast<int>(hit);
  }
  EXPECT_EQ(tally[tasks], tally[done] + tally[failed] + tally[skipped] + tally[cancelled]);
}

/// A device that has nothing to hide.
DeviceFacts clean() {
  DeviceFacts facts;
  facts.name = "d";
  facts.accepted = 2;
  facts.counters.submitted = 2;
  facts.counters.done = 1;
  facts.counters.skipped = 1;
  facts.tasks = {{1, true, {}, 1, true},
                 {2, true, Status(ErrorCode::device_failed, "skipped"), 0, false}};
  return facts;
}

TEST(StressChecksTest, NoticeWhatIsBroken) {
  EXPECT_THAT(check(clean()), IsEmpty());
  const auto after = [](auto spoil) {
    DeviceFacts facts = clean();
    spoil(facts);
    return check(facts);
  };
  EXPECT_THAT(after([](auto& f) { f.overlaps = 1; }), ElementsAre(HasSubstr("overlapped")));
  EXPECT_THAT(after([](auto& f) { f.misordered = 1; }), ElementsAre(HasSubstr("out of order")));
  EXPECT_THAT(after([](auto& f) { f.accepted = 3; }), ElementsAre(HasSubstr("3 were accepted")));
  EXPECT_THAT(after([](auto& f) { f.counters.done = 2; }), ElementsAre(HasSubstr("2 done")));
  EXPECT_THAT(after([](auto& f) { f.tasks[0].done = false; }), ElementsAre(HasSubstr("pending")));
  EXPECT_THAT(after([](auto& f) { f.tasks[0].runs = 2; }), ElementsAre(HasSubstr("2 times")));
  EXPECT_THAT(after([](auto& f) { f.tasks[0].ran_well = false; }),
              ElementsAre(HasSubstr("its event says: ok")));
  EXPECT_THAT(after([](auto& f) { f.tasks[1].status = {}; }),
              ElementsAre(HasSubstr("did not run")));
  EXPECT_THAT(after([](auto& f) { f.tasks[0].reports = 1; }), ElementsAre(HasSubstr("expected 0")));
  EXPECT_THAT(after([](auto& f) { f.tasks[0].ends_later = true; }),
              ElementsAre(HasSubstr("reported 0 times, expected 1")));
}

// S23: what was in flight behind a failure may have run well
TEST(StressChecksTest, TasksInFlightMayBeSkippedThoughTheyRan) {
  DeviceFacts facts = clean();
  facts.tasks[1] = {2, true, Status(ErrorCode::device_failed, "skipped"), 1, true, true, 1};
  EXPECT_THAT(check(facts), IsEmpty());
  facts.tasks[1].ran_well = false;
  facts.tasks[1].status = {};
  EXPECT_THAT(check(facts), ElementsAre(HasSubstr("its event says: ok")));
}

TEST(StressChecksTest, NoticeATraceThatDoesNotNest) {
  Trace trace;
  TraceEvent event;
  const auto add = [&](std::uint64_t track, std::chrono::nanoseconds begin,
                       std::chrono::nanoseconds end) {
    event.track = track;
    event.begin = begin;
    event.duration = end - begin;
    trace.events.push_back(event);
  };
  add(1, 0ns, 10ns);
  add(2, 0ns, 5ns);
  add(1, 2ns, 8ns);
  add(1, 8ns, 10ns);
  add(1, 10ns, 12ns);
  EXPECT_THAT(check(trace), IsEmpty());
  add(1, 11ns, 13ns);
  EXPECT_THAT(check(trace), ElementsAre(HasSubstr("ends 1 ns after")));
}

TEST(StressChecksTest, NoticeMemoryThatGrows) {
  constexpr std::uint64_t warm = MemoryBound::warm_devices;
  MemoryBound bound(100);
  EXPECT_EQ(bound.look(50'000, warm - 1), "");
  EXPECT_EQ(bound.look(1000, warm), "");
  EXPECT_EQ(bound.look(1350, warm + 1), "");
  EXPECT_THAT(bound.look(1351, warm + 2), HasSubstr("memory grows"));
  EXPECT_GT(resident_bytes(), 1'000'000u);
}

TEST(SoakTest, StopsWhenTold) {
  SoakOptions options;
  options.seed = 7;
  options.rounds_max = 3;
  options.trace = true;
  const SoakResult rounds = soak(options);
  EXPECT_EQ(rounds.tally[Count::rounds], 3u);
  EXPECT_EQ(rounds.last_seed, 9u);
  EXPECT_THAT(rounds.broken, IsEmpty());
  ASSERT_TRUE(rounds.trace.has_value());
  EXPECT_FALSE(rounds.trace->events.empty());
  EXPECT_THAT(rounds.to_string(), HasSubstr("3 rounds"));
  const std::atomic<bool> stop{true};
  options.stop = &stop;
  EXPECT_EQ(soak(options).tally[Count::rounds], 0u);
}

}  // namespace
}  // namespace heddle::stress
