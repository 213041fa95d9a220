// Tasks in parts (S24): what parts there are, where they run, how they fail and stop, in all modes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"
#include "tests/unit/scheduler/parallel_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::Mode;
using sched::TaskDevice;
using testing::HasSubstr;

constexpr std::size_t size_max = std::numeric_limits<std::size_t>::max();

class ParallelTest : public testing::TestWithParam<Mode> {
 protected:
  TaskDevice open(const char* name = "work") {
    return scheduler_.new_device(of_mode(GetParam(), name));
  }
  Scheduler scheduler_{of_width(3)};
};
HEDDLE_DEVICE_SUITE(ParallelTest);

// S24: each index is in one part, whatever the range and the grain are
TEST_P(ParallelTest, EachIndexOnce) {
  const TaskDevice device = open();
  Ranges ranges;
  const auto part = [&ranges](std::size_t from, std::size_t to) { ranges.add(from, to); };
  for (const std::size_t count : {0, 1, 2, 7, 23, 24, 25, 1000}) {
    ASSERT_TRUE(device.submit_parallel("rows", count, part).wait().ok());
    const auto even = ranges.take_sorted();
    EXPECT_TRUE(make_up(even, count)) << count;
    EXPECT_EQ(even.size(), std::min<std::size_t>(count, 24)) << "8 parts for each thread";
    for (const std::size_t grain : {1, 3, 24, 999, 1000, 5000}) {
      ASSERT_TRUE(device.submit_parallel("rows", count, part, by(grain)).wait().ok());
      const auto cut = ranges.take_sorted();
      EXPECT_TRUE(make_up(cut, count)) << count << " by " << grain;
      for (const auto& [from, to] : cut) {
        EXPECT_EQ(from % grain, 0U);
        EXPECT_EQ(to - from, std::min(grain, count - from));
      }
    }
  }
  EXPECT_EQ(device.counters().done, 8U * 7);  // one ticket for each call
}

// S24: sizes differ by one at most where nobody gave a grain
TEST_P(ParallelTest, EvenPartsAreEven) {
  const TaskDevice device = open();
  std::atomic<std::size_t> least{size_max}, most{0};
  const auto part = [&](std::size_t from, std::size_t to) {
    const std::size_t size = to - from;
    for (auto seen = least.load(); size < seen && !least.compare_exchange_weak(seen, size);) {
    }
    for (auto seen = most.load(); size > seen && !most.compare_exchange_weak(seen, size);) {
    }
  };
  ASSERT_TRUE(device.submit_parallel("rows", 1000, part).wait().ok());
  EXPECT_EQ(least, 41U);
  EXPECT_EQ(most, 42U);
}

// S24, bad input: ranges near the end of all numbers overflow nowhere
TEST_P(ParallelTest, HugeRanges) {
  const TaskDevice device = open();
  Ranges ranges;
  const auto part = [&ranges](std::size_t from, std::size_t to) { ranges.add(from, to); };
  for (const std::size_t count : {size_max, size_max - 1}) {
    ASSERT_TRUE(device.submit_parallel("rows", count, part).wait().ok());
    EXPECT_TRUE(make_up(ranges.take_sorted(), count));
    for (const std::size_t grain : {size_max, size_max - 1, size_max / 2, size_max / 100}) {
      ASSERT_TRUE(device.submit_parallel("rows", count, part, by(grain)).wait().ok());
      EXPECT_TRUE(make_up(ranges.take_sorted(), count)) << grain;
    }
  }
}

// S24: of more parts than could ever run, those behind a failure, or a stop, cost no time
TEST_P(ParallelTest, MostOfHugeRangesIsLeftOut) {
  const TaskDevice device = open();
  std::atomic<std::size_t> ran{0};
  const auto fails = [&ran](std::size_t from, std::size_t /*to*/) {
    ++ran;
    return from < 10 ? Status() : Status(ErrorCode::not_found, "no such row");
  };
  const Status failed = device.submit_parallel("rows", size_max, fails, by(1)).wait();
  EXPECT_THAT(failed.to_string(), HasSubstr("indices [10, 11), failed"));
  EXPECT_TRUE(device.recover().ok());
  const auto stops = [&](std::size_t from, std::size_t /*to*/) {
    ++ran;
    if (from == 10) device.cancel_pending();
  };
  EXPECT_EQ(device.submit_parallel("rows", size_max, stops, by(1)).wait().code(),
            ErrorCode::cancelled);
}

// S24: however many parts fail, in whatever order, the first of them is told, and all before it ran
TEST_P(ParallelTest, LowestFailureIsTold) {
  const TaskDevice device = open();
  for (int round = 0; round < 50; ++round) {
    std::atomic<int> before{0};
    const auto part = [&before](std::size_t from, std::size_t /*to*/) {
      if (from >= 30) throw std::runtime_error("no row " + std::to_string(from));
      ++before;
    };
    const Status failed = device.submit_parallel("rows", 95, part, by(10)).wait();
    EXPECT_EQ(before, 3);
    EXPECT_EQ(failed.code(), ErrorCode::device_failed);
    EXPECT_THAT(failed.to_string(), HasSubstr("device 'work' task 'rows' (ticket"));
    EXPECT_THAT(failed.to_string(), HasSubstr("part 4 of 10, indices [30, 40), failed"));
    EXPECT_EQ(failed.root().message(), "no row 30");
    EXPECT_THROW(std::rethrow_exception(failed.exception()), std::runtime_error);
    EXPECT_EQ(device.status().code(), ErrorCode::device_failed);  // poisoned, as by any task
    ASSERT_TRUE(device.recover().ok());
  }
}

// S24: a failure that one part has before an earlier one has its own; the earlier is told
TEST(ParallelFailuresTest, EarlierPartsFailLater) {
  Scheduler scheduler(of_width(2));
  const TaskDevice device = scheduler.new_device("work");
  std::atomic<bool> later{false};
  const auto part = [&later](std::size_t from, std::size_t /*to*/) {
    if (from == 1) later = true;
    if (from == 0 && !test::before_long([&] { return later.load(); })) return Status();
    if (from == 0) std::this_thread::sleep_for(5ms);  // the other failure is noted meanwhile
    return Status(ErrorCode::not_found, "row " + std::to_string(from));
  };
  const Status failed = device.submit_parallel("rows", 100, part, by(1)).wait();
  EXPECT_EQ(failed.root().message(), "row 0");
}

// S24, S10: failures may be contained, and be the part's own
TEST_P(ParallelTest, FailuresMayBeContained) {
  const TaskDevice device = open();
  sched::ParallelOptions options = by(5);
  options.submit.contain = true;
  options.submit.own_status = true;
  const auto part = [](std::size_t from, std::size_t /*to*/) {
    return from == 5 ? Status(ErrorCode::not_found, "no such row") : Status();
  };
  const Status own = device.submit_parallel("rows", 10, part, options).wait();
  EXPECT_EQ(own.code(), ErrorCode::not_found);
  EXPECT_EQ(own.message(), "part 2 of 2, indices [5, 10), failed");
  EXPECT_TRUE(device.status().ok());
}

// S24, S12: a part that has begun ends, and none begins, once somebody asks to stop
TEST_P(ParallelTest, StopsBetweenParts) {
  const TaskDevice device = open();
  std::atomic<std::size_t> ran{0};
  std::atomic<bool> asked{false};
  const auto part = [&](std::size_t from, std::size_t /*to*/) {
    if (from == 2) {
      device.cancel_pending();
      asked = true;
    }
    if (from > 50) {
      EXPECT_TRUE(test::before_long([&] { return asked.load(); }));
    }
    ++ran;
  };
  const Event rows = device.submit_parallel("rows", 1000, part, by(1));
  EXPECT_EQ(rows.wait().code(), ErrorCode::cancelled);
  EXPECT_THAT(text(rows.status()), HasSubstr("asked to stop before all 1000 parts had begun"));
  // Parts before it, which others have taken, may not have begun.
  EXPECT_GE(ran, GetParam() == Mode::manual ? 3U : 1U);
  EXPECT_LE(ran, GetParam() == Mode::manual ? 3U : 53U);
  EXPECT_EQ(device.counters().cancelled, 1U);
  EXPECT_TRUE(device.submit_parallel("rows", 10, [](std::size_t, std::size_t) {}).wait().ok());
}

// S24, S12: parts see the stop token of their task, whichever thread runs them
TEST_P(ParallelTest, PartsLoopUntilStopped) {
  const TaskDevice device = open();
  std::atomic<int> begun{0};
  std::thread canceller([&] {
    EXPECT_TRUE(test::before_long([&] { return begun > 0; }));
    device.cancel_pending();
  });
  const auto part = [&](std::size_t /*from*/, std::size_t /*to*/) {
    const std::stop_token stop = this_task::stop_token();
    ++begun;
    return test::before_long([&] { return stop.stop_requested(); })
               ? Status(ErrorCode::cancelled, "stopped")
               : Status();
  };
  EXPECT_EQ(device.submit_parallel("rows", 100, part, by(1)).wait().code(), ErrorCode::cancelled);
  canceller.join();
  EXPECT_EQ(device.counters().cancelled, 1U);
  EXPECT_LE(begun, 3);
}

// S24: parts are inside their task
TEST_P(ParallelTest, PartsKnowTheirTask) {
  const TaskDevice device = open();
  std::atomic<int> wrong{0};
  const auto part = [&](std::size_t /*from*/, std::size_t /*to*/) {
    if (!this_task::running() || std::string(this_task::label()) != "rows" ||
        this_task::ticket() != 1)
      ++wrong;
  };
  EXPECT_TRUE(device.submit_parallel("rows", 1000, part, by(1)).wait().ok());
  EXPECT_EQ(wrong, 0);
  EXPECT_FALSE(this_task::running());
}

// S24, S16: what a part would wait for is refused, never a deadlock; after the parts tasks wait
TEST_P(ParallelTest, PartsWaitForNothing) {
  const TaskDevice device = open(), other = open("other");
  sched::ExternalTimeline timeline("gate");
  const Event gate = timeline.next();
  other.wait(gate);
  const auto refused = [](const Status& status) {
    return status.code() == ErrorCode::failed_precondition;
  };
  std::atomic<int> wrong{0};
  const auto part = [&](std::size_t /*from*/, std::size_t /*to*/) {
    if (!refused(gate.wait()) || !refused(gate.wait_for(1ms)) || !refused(this_task::await(gate)))
      ++wrong;
    if (!refused(other.await()) || !refused(device.await())) ++wrong;
    if (!refused(device.shutdown(1s)) || !refused(other.shutdown(1s))) ++wrong;
    if (!Event().wait().ok()) ++wrong;
  };
  EXPECT_TRUE(device.submit_parallel("rows", 20, part, by(1)).wait().ok());
  EXPECT_EQ(wrong, 0);
  Status why;
  const TaskDevice third = open("third");
  third.submit_parallel("rows", 1, [&](std::size_t, std::size_t) { why = gate.wait(); }).wait();
  EXPECT_THAT(text(why), HasSubstr("a part of task 'rows': waiting for gate#1 pending"));
  EXPECT_THAT(text(why), HasSubstr("SubmitOptions::after"));
  const Event later = third.submit("later", [gate] { return gate.wait(); });
  ASSERT_TRUE(timeline.signal(gate.ticket()).ok());
  EXPECT_TRUE(later.wait().ok());
  EXPECT_TRUE(other.await().ok());
}

// S24, S4: nor for room in a full queue
TEST_P(ParallelTest, PartsWaitForNoRoom) {
  sched::DeviceOptions options = of_mode(GetParam(), "other");
  options.queue_size = 1;
  const TaskDevice device = open(), other = scheduler_.new_device(options);
  sched::ExternalTimeline timeline("gate");
  const Event gate = timeline.next();
  other.wait(gate);
  Status why;
  const auto part = [&](std::size_t, std::size_t) { why = other.submit("one", [] {}).status(); };
  EXPECT_TRUE(device.submit_parallel("rows", 1, part).wait().ok());
  EXPECT_EQ(why.code(), ErrorCode::exhausted);
  EXPECT_THAT(text(why), HasSubstr("is full, and a part of a task waits for no room"));
  ASSERT_TRUE(timeline.signal(gate.ticket()).ok());
  EXPECT_TRUE(other.await().ok());
}

// S24, S13: a device whose last handle goes in a part ends by itself
TEST_P(ParallelTest, LastHandlesMayGoInParts) {
  std::atomic<int> ran{0};
  Event inner;
  const LiveThreads before;
  {
    const TaskDevice device = open();
    auto other = std::make_shared<TaskDevice>(open("other"));
    const auto drops = [&](std::size_t /*from*/, std::size_t /*to*/) {
      inner = other->submit("inner", [&ran] { ++ran; });
      other.reset();
    };
    EXPECT_TRUE(device.submit_parallel("rows", 1, drops).wait().ok());
  }
  EXPECT_TRUE(inner.wait().ok());
  EXPECT_EQ(ran, 1);
  if (GetParam() == Mode::threaded) {
    EXPECT_TRUE(before.others_end(2));  // those that help
  }
}

// S24: what parts submit in parts runs too, with nobody to help, on their own device and others
TEST_P(ParallelTest, PartsMaySubmitParts) {
  const TaskDevice device = open(), other = open("other");
  std::atomic<int> inner{0};
  const auto inner_part = [&inner](std::size_t from, std::size_t to) {
    inner += static_cast<int>(to - from);
  };
  const auto part = [&](std::size_t /*from*/, std::size_t /*to*/) {
    device.submit_parallel("own", 10, inner_part, by(3));
    other.submit_parallel("other's", 10, inner_part, by(3));
  };
  for (int round = 0; round < 20; ++round) {
    ASSERT_TRUE(device.submit_parallel("rows", 50, part, by(1)).wait().ok());
    ASSERT_TRUE(device.await().ok());
    ASSERT_TRUE(other.await().ok());
    ASSERT_EQ(inner.exchange(0), 50 * 20);
  }
}

// S24: order on the device, and events that the parts come after, are those of any task
TEST_P(ParallelTest, ComesAfterWhatItLists) {
  const TaskDevice device = open(), other = open("other");
  sched::ExternalTimeline timeline("gate");
  const Event gate = timeline.next();
  std::atomic<int> ran{0};
  sched::ParallelOptions options;
  options.submit.after = {gate};
  const auto count = [&ran](std::size_t from, std::size_t to) {
    ran += static_cast<int>(to - from);
  };
  const Event rows = device.submit_parallel("rows", 100, count, options);
  int seen = -1;
  const Event next = device.submit("next", [&] { seen = ran; });
  scheduler_.poll();
  EXPECT_EQ(ran, 0);
  ASSERT_TRUE(timeline.signal(gate.ticket()).ok());
  EXPECT_TRUE(next.wait().ok());
  EXPECT_EQ(seen, 100);
  EXPECT_TRUE(rows.status().ok());
}

// S24, bad input: refused with no ticket, in words that say what to do
TEST_P(ParallelTest, NonsenseIsRefused) {
  TaskDevice device = open();
  const auto part = [](std::size_t /*from*/, std::size_t /*to*/) {};
  const Event no_grain = device.submit_parallel("rows", 10, part, by(0));
  EXPECT_FALSE(no_grain.accepted());
  EXPECT_EQ(no_grain.status().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(text(no_grain.status()),
              HasSubstr("device 'work' task 'rows': parts of 0 indices (expected a grain of 1"));
  const Event empty =
      device.submit_parallel("rows", 10, std::function<void(std::size_t, std::size_t)>());
  EXPECT_EQ(empty.status().code(), ErrorCode::invalid_argument);
  EXPECT_THAT(text(empty.status()), HasSubstr("nothing to call"));
  void (*null)(std::size_t, std::size_t) = nullptr;
  EXPECT_EQ(device.submit_parallel("rows", 10, null).status().code(), ErrorCode::invalid_argument);
  EXPECT_EQ(device.counters().submitted, 0U);
  const TaskDevice moved = std::move(device);
  EXPECT_EQ(device.submit_parallel("rows", 1, part).status().code(),  // NOLINT: moved from
            ErrorCode::failed_precondition);
  EXPECT_TRUE(moved.shutdown(10s).ok());
  EXPECT_EQ(moved.submit_parallel("rows", 1, part).status().code(), ErrorCode::unavailable);
}

// S24: devices with tasks in flight run parts as well, once all before them have ended
TEST_P(ParallelTest, TasksInFlightEndBefore) {
  sched::DeviceOptions options = of_mode(GetParam());
  options.in_flight = 4;
  const TaskDevice device = scheduler_.new_device(options);
  std::optional<sched::Completion> held;
  std::atomic<bool> issued{false};
  device.submit("later", [&](sched::Completion completion) {
    held.emplace(std::move(completion));
    issued = true;
  });
  Ranges ranges;
  const Event rows = device.submit_parallel(
      "rows", 100, [&](std::size_t from, std::size_t to) { ranges.add(from, to); });
  ASSERT_TRUE(test::before_long([&] {
    scheduler_.poll();
    return issued.load();
  }));
  EXPECT_EQ(ranges.size(), 0U);
  ASSERT_TRUE(held->end().ok());
  EXPECT_TRUE(rows.wait().ok());
  EXPECT_TRUE(make_up(ranges.take_sorted(), 100));
}

}  // namespace
}  // namespace heddle
