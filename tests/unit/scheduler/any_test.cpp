// Tasks for whichever worker is free (S24).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"
#include "heddle/simulation.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"
#include "tests/unit/scheduler/parallel_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::Mode;
using testing::HasSubstr;

SchedulerOptions any_options(Mode mode, unsigned workers = 2) {
  SchedulerOptions options;
  options.name = "host";
  options.workers = workers;
  options.device.mode = mode;
  return options;
}

class AnyTest : public testing::TestWithParam<Mode> {};
HEDDLE_DEVICE_SUITE(AnyTest);

// S24: all run, wherever the scheduler's devices do, and no failure is another's
TEST_P(AnyTest, AllRunAndFailAlone) {
  SchedulerOptions options = any_options(GetParam());
  options.device.record_sites = true;
  Scheduler scheduler(options);
  std::atomic<int> ran{0};
  std::vector<Event> events;
  for (int k = 0; k < 300; ++k) {
    events.push_back(scheduler.submit_any("one", [&ran, k] {
      ++ran;
      if (k % 10 == 3) throw std::runtime_error("number " + std::to_string(k));
    }));
  }
  for (std::size_t k = 0; k < events.size(); ++k) {
    const Status ended = events[k].wait();
    EXPECT_EQ(ended.ok(), k % 10 != 3);
    if (ended.ok()) continue;
    EXPECT_EQ(ended.code(), ErrorCode::device_failed);
    EXPECT_EQ(ended.root().message(), "number " + std::to_string(k));
    EXPECT_THAT(text(ended), HasSubstr("device 'host/any "));
    EXPECT_THAT(text(ended), HasSubstr("task 'one'"));
    EXPECT_THAT(text(ended), HasSubstr("any_test.cpp"));
  }
  EXPECT_EQ(ran, 300);
}

// S24: what it lists comes before, and nothing else does
TEST_P(AnyTest, ComesAfterWhatItLists) {
  Scheduler scheduler(any_options(GetParam()));
  sched::ExternalTimeline timeline("gate");
  const Event gate = timeline.next();
  std::atomic<int> ran{0};
  sched::SubmitOptions options;
  options.after = {gate};
  const Event late = scheduler.submit_any("late", [&ran] { ++ran; }, options);
  EXPECT_TRUE(scheduler.submit_any("soon", [&ran] { ++ran; }).wait().ok());
  scheduler.poll();
  EXPECT_EQ(ran, 1);
  ASSERT_TRUE(timeline.signal(gate.ticket()).ok());
  EXPECT_TRUE(late.wait().ok());
  EXPECT_EQ(ran, 2);
}

// S24, S16: a task that waits holds up no other
TEST_P(AnyTest, WaitsHoldNobodyUp) {
  Scheduler scheduler(any_options(GetParam(), 1));
  sched::ExternalTimeline timeline("gate");
  const Event gate = timeline.next();
  const Event waits = scheduler.submit_any("waits", [gate] { return this_task::await(gate); });
  scheduler.poll();
  for (int k = 0; k < 10; ++k) EXPECT_TRUE(scheduler.submit_any("other", [] {}).wait().ok());
  EXPECT_FALSE(waits.done());
  ASSERT_TRUE(timeline.signal(gate.ticket()).ok());
  EXPECT_TRUE(waits.wait().ok());
}

// S24, bad input, S13: refused with a status that says why
TEST_P(AnyTest, NonsenseIsRefused) {
  Scheduler scheduler(any_options(GetParam()));
  const Event empty = scheduler.submit_any("empty", std::function<void()>());
  EXPECT_FALSE(empty.accepted());
  EXPECT_EQ(empty.status().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(text(empty.status()), HasSubstr("scheduler 'host' task 'empty': there is nothing"));
  EXPECT_TRUE(scheduler.submit_any("one", [] {}).wait().ok());
  EXPECT_TRUE(scheduler.shutdown(10s).ok());
  const Event late = scheduler.submit_any("late", [] {});
  EXPECT_EQ(late.status().code(), ErrorCode::unavailable);
  EXPECT_THAT(text(late.status()), HasSubstr("the scheduler is shut down"));
  const Scheduler moved = std::move(scheduler);
  EXPECT_EQ(scheduler.submit_any("one", [] {}).status().code(),  // NOLINT: moved from
            ErrorCode::failed_precondition);
}

// S24, S13: nothing that was accepted is lost with the handle
TEST_P(AnyTest, LastHandleWaits) {
  std::atomic<int> ran{0};
  Event inside;
  for (int round = 0; round < 200; ++round) {
    ran = 0;
    {
      Scheduler scheduler(any_options(GetParam()));
      for (int k = 0; k < 20; ++k) scheduler.submit_any("one", [&ran] { ++ran; });
    }
    ASSERT_EQ(ran, 20);
  }
  if (GetParam() == Mode::manual) return;  // nobody polls for what keeps its own scheduler
  {
    auto scheduler = std::make_unique<Scheduler>(any_options(GetParam()));
    inside = scheduler->submit_any("drops", [&ran, held = *scheduler]() mutable {
      {
        const Scheduler last = std::move(held);
      }
      ++ran;
    });
  }
  EXPECT_TRUE(inside.wait().ok());
  EXPECT_TRUE(test::before_long([&] { return ran == 21; }));
}

// S24: while one worker is at a long task, the other ends all that comes
TEST(AnyWorkersTest, RunOnWhicheverIsFree) {
  for (const Mode mode : {Mode::threaded, Mode::pooled}) {
    Scheduler scheduler(any_options(mode));
    std::latch go(1);
    std::atomic<bool> begun{false};
    const Event held = scheduler.submit_any("long", [&] {
      begun = true;
      go.wait();
    });
    ASSERT_TRUE(test::before_long([&] { return begun.load(); }));
    std::vector<Event> events;
    for (int k = 0; k < 200; ++k) events.push_back(scheduler.submit_any("short", [] {}));
    for (const Event& event : events) EXPECT_TRUE(event.wait_for(20s).ok());
    EXPECT_FALSE(held.done());
    go.count_down();
    EXPECT_TRUE(held.wait().ok());
  }
}

// S24: both workers take part
TEST(AnyWorkersTest, RunAtOnce) {
  Scheduler scheduler(any_options(Mode::pooled, 3));
  std::latch all(3);
  std::vector<Event> events;
  for (int k = 0; k < 3; ++k)
    events.push_back(scheduler.submit_any("meets", [&all] { all.arrive_and_wait(); }));
  for (const Event& event : events) EXPECT_TRUE(event.wait_for(20s).ok());
}

// S24: more outstanding ones than have a device each
TEST(AnyWorkersTest, ThousandsOutstanding) {
  Scheduler scheduler(any_options(Mode::pooled));
  sched::ExternalTimeline timeline("gate");
  const Event gate = timeline.next();
  sched::SubmitOptions options;
  options.after = {gate};
  std::atomic<int> ran{0};
  std::vector<Event> events;
  for (int k = 0; k < 3000; ++k)
    events.push_back(scheduler.submit_any("one", [&ran] { ++ran; }, options));
  EXPECT_EQ(scheduler.snapshot().size(), 1024U);
  ASSERT_TRUE(timeline.signal(gate.ticket()).ok());
  for (const Event& event : events) ASSERT_TRUE(event.wait().ok());
  EXPECT_EQ(ran, 3000);
  for (int k = 0; k < 3000; ++k) ASSERT_TRUE(scheduler.submit_any("one", [] {}).wait().ok());
}

// S24, S17: snapshots have those that run, and none that rests
TEST(AnyWorkersTest, SnapshotsLeaveOutWhatRests) {
  Scheduler scheduler(any_options(Mode::pooled));
  EXPECT_TRUE(scheduler.submit_any("one", [] {}).wait().ok());
  EXPECT_EQ(scheduler.snapshot().size(), 0U);
  std::latch go(1);
  const Event held = scheduler.submit_any("long", [&go] { go.wait(); });
  ASSERT_TRUE(test::before_long([&] {
    const auto seen = scheduler.snapshot();
    return seen.size() == 1 && seen[0].running == "long";
  }));
  go.count_down();
  EXPECT_TRUE(held.wait().ok());
}

// S24: without memory once as many were outstanding before; devices are used again
TEST(AnyWorkersTest, TakesNoMemory) {
  Scheduler scheduler(any_options(Mode::inline_));
  std::array<std::uint64_t*, 4> words{};  // 32 bytes
  std::uint64_t ran = 0;
  words[0] = &ran;
  const auto one = [words] { ++*words[0]; };
  scheduler.submit_any("one", one);
  const std::uint64_t before = allocations();
  for (int k = 0; k < 1000; ++k) scheduler.submit_any("one", one);
  EXPECT_EQ(allocations(), before);
  EXPECT_EQ(ran, 1001U);
}

// S24, S18: in a simulation the seed decides which comes first
TEST(AnySimulationTest, SeedsDecideTheOrder) {
  std::set<std::string> orders;
  for (std::uint64_t seed = 1; seed <= 50; ++seed) {
    std::string order, again;
    for (std::string* const into : {&order, &again}) {
      SimulationOptions options;
      options.seed = seed;
      options.faults.fill(false);
      Simulation simulation(options);
      for (int k = 0; k < 5; ++k) {
        EXPECT_TRUE(simulation.scheduler()
                        .submit_any("one", [into, k] { *into += std::to_string(k); })
                        .accepted());
      }
      EXPECT_TRUE(simulation.run().status.ok());
      EXPECT_EQ(into->size(), 5U);
    }
    EXPECT_EQ(order, again);
    orders.insert(order);
  }
  EXPECT_GT(orders.size(), 20U);
}

// S24, S14: threads of the pool start with the first, and end with the scheduler
TEST(AnyWorkersTest, ThreadsEnd) {
  const LiveThreads before;
  {
    Scheduler scheduler(any_options(Mode::threaded));
    EXPECT_EQ(before.added(), 0);
    EXPECT_TRUE(scheduler.submit_any("one", [] {}).wait().ok());
    EXPECT_EQ(before.added(), 2);
  }
  EXPECT_TRUE(before.others_end());
}

}  // namespace
}  // namespace heddle
