// What a kernel in parts is given and says, in each mode: which parts there are, on which threads,
// with which scratch, and how the kernel ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "tests/support/forked.hpp"
#include "tests/unit/runtime/parts_fixture.hpp"

namespace heddle::rt {
namespace {

using namespace std::chrono_literals;
using sched::Mode;
using testing::HasSubstr;

class KernelInParts : public testing::TestWithParam<Mode> {
 protected:
  /// The task's thread and two others, or what stands for them.
  Scheduler scheduler{of_width(3)};
  PartsLaunch launch{scheduler, GetParam()};
};
INSTANTIATE_TEST_SUITE_P(Modes, KernelInParts,
                         testing::Values(Mode::threaded, Mode::pooled, Mode::inline_, Mode::manual),
                         [](const auto& mode) { return name_of(mode.param); });

// S19: there are four parts for each processor, each runs once, and others than the task's own
// thread run some where there are others
TEST_P(KernelInParts, IsSharedOut) {
  const bool helped = GetParam() != Mode::manual;
  std::atomic<std::uint32_t> inside{0};
  launch.given.each = [&](std::uint32_t) {
    ++inside;
    // The first two are inside at once.
    EXPECT_TRUE(!helped || test::before_long([&] { return inside >= 2; }));
    return heddle_kernel_status{};
  };
  const std::thread::id here = std::this_thread::get_id();
  ASSERT_TRUE(launch.submit(100).wait().ok());
  EXPECT_TRUE(launch.given.are_whole(12));
  EXPECT_EQ(launch.said.code, 0);
  EXPECT_EQ(launch.execution.parts, 12U);
  if (helped) {
    EXPECT_GE(launch.given.threads().size(), 2U);
    EXPECT_LE(launch.given.threads().size(), 3U);
  } else {
    std::vector<std::uint32_t> in_order(12);
    std::iota(in_order.begin(), in_order.end(), 0U);
    EXPECT_EQ(launch.given.order(), in_order);
    EXPECT_EQ(launch.given.threads(), std::set{here}) << "the thread that polls or waits";
  }
}

// S19: no more parts than the kernel is worth
TEST_P(KernelInParts, IsWorthSoMany) {
  ASSERT_TRUE(launch.submit(5).wait().ok());
  EXPECT_TRUE(launch.given.are_whole(5));
}

// S19: of the parts that say something the first is heard, though later ones may say it earlier
TEST_P(KernelInParts, IsWhatItsFirstFailingPartSays) {
  for (int times = 0; times < 20; ++times) {
    launch.given.each = [&](std::uint32_t part) -> heddle_kernel_status {
      const bool waits = GetParam() != Mode::manual && part == 3;
      if (waits) test::before_long([&] { return launch.given.size() >= 6; });
      return {part == 3 || part == 5 || part == 11 ? static_cast<std::int32_t>(part) : 0, 7};
    };
    ASSERT_TRUE(launch.submit(100).wait().ok());
    EXPECT_EQ(launch.said.code, 3);
    EXPECT_EQ(launch.said.detail, 7);
    EXPECT_TRUE(launch.given.are_whole(12));
    launch.given.all.clear();
  }
}

// S19: no two parts have the same scratch at once; the task's own thread has that of the kernel
TEST_P(KernelInParts, HasScratchForEachThread) {
  const std::set<void*> there{launch.first, launch.others + 16, launch.others + 64 + 16};
  std::atomic<std::uint32_t> inside{0};
  launch.given.each = [&](std::uint32_t) {
    ++inside;
    EXPECT_TRUE(GetParam() == Mode::manual || test::before_long([&] { return inside >= 3; }))
        << "three are inside at once";
    return heddle_kernel_status{};
  };
  for (int times = 0; times < 10; ++times) {
    ASSERT_TRUE(launch.submit(100).wait().ok());
    EXPECT_FALSE(launch.given.met);
    EXPECT_EQ(launch.given.scratch(),
              GetParam() == Mode::manual ? std::set<void*>{launch.first} : there);
    launch.given.all.clear();
    inside = 0;
  }
}

// S12, S24: a stop request holds between parts: none begins any more, and the kernel says so
TEST_P(KernelInParts, StopsBetweenParts) {
  std::atomic<bool> asked{false};
  launch.given.each = [&](std::uint32_t part) {
    if (part == 4) {
      launch.device.cancel_pending();
      asked = true;
    }
    EXPECT_TRUE(part < 4 || test::before_long([&] { return asked.load(); }));
    return heddle_kernel_status{};
  };
  ASSERT_TRUE(launch.submit(100, true).wait().ok());
  EXPECT_EQ(launch.said.code, HEDDLE_KERNEL_STOPPED);
  // Two others may have begun a part by then, or claimed one that they drop.
  const std::size_t others = GetParam() == Mode::manual ? 0 : 2;
  EXPECT_GE(launch.given.size(), 5 - others);
  EXPECT_LE(launch.given.size(), 5 + others);
  EXPECT_EQ(launch.execution.parts, launch.given.size());
  launch.given.all.clear();
  // What looks at nothing ends whole.
  ASSERT_TRUE(launch.submit(100).wait().ok());
  EXPECT_TRUE(launch.given.are_whole(12));
}

// S17, S24: a snapshot tells of the earliest part that runs
TEST_P(KernelInParts, IsSeenInSnapshots) {
  std::vector<std::string> told;
  launch.given.each = [&](std::uint32_t part) {
    if (part == 11) told.push_back(launch.device.snapshot().part);
    return heddle_kernel_status{};
  };
  for (int times = 0; times < 10; ++times) ASSERT_TRUE(launch.submit(12).wait().ok());
  for (const std::string& part : told) EXPECT_THAT(part, HasSubstr(" of 12"));
  ASSERT_EQ(told.size(), 10U);
  if (GetParam() == Mode::manual) {
    EXPECT_EQ(told[0], "part 12 of 12");
  }
  EXPECT_EQ(launch.device.snapshot().part, "");
}

// S14: children that were forked run none of it
TEST_P(KernelInParts, IsRefusedInForkedChildren) {
  ASSERT_TRUE(launch.submit(12).wait().ok());
  EXPECT_TRUE(
      in_forked_child([&] { return launch.submit(12).wait().code() == ErrorCode::unavailable; }));
  EXPECT_EQ(launch.given.size(), 12U);
}

// S19: without helpers at the moment a kernel is one part
TEST(KernelOfOnePart, IsWholeWithoutHelpers) {
  Scheduler scheduler(of_width(1));
  PartsLaunch launch(scheduler, Mode::threaded);
  launch.execution.width = 3;  // when it was linked there were others
  ASSERT_TRUE(launch.submit(100).wait().ok());
  EXPECT_TRUE(launch.given.are_whole(1));
  EXPECT_EQ(launch.given.scratch(), std::set<void*>{launch.first});
  EXPECT_EQ(launch.execution.parts, 0U);
}

// S19, S24: within a part of a task, a kernel of whatever scheduler takes no more threads
TEST(KernelOfOnePart, IsWholeWithinParts) {
  Scheduler outer(of_width(3)), inner(of_width(3));
  const sched::TaskDevice device = outer.new_device("outer");
  PartsLaunch launch(inner, Mode::inline_);
  sched::ParallelOptions one;
  one.grain = 1;
  std::atomic<int> well{0};
  const Event all = device.submit_parallel(
      "parts", 12,
      [&](std::size_t, std::size_t) {
        // A wait is refused here, but an inline device runs it at once.
        static std::mutex in_turn;
        const std::lock_guard lock(in_turn);
        static_cast<void>(launch.submit(100));
        if (launch.given.are_whole(1)) ++well;
        launch.given.all.clear();
      },
      one);
  ASSERT_TRUE(all.wait().ok());
  EXPECT_EQ(well, 12);
  ASSERT_TRUE(launch.submit(100).wait().ok());
  EXPECT_TRUE(launch.given.are_whole(12)) << "outside of parts it is shared out";
}

// S19, S24: a pool's own workers run the parts: there is no thread besides
TEST(KernelOnAPool, IsRunByItsWorkers) {
  Scheduler scheduler(of_width(3));
  PartsLaunch launch(scheduler, Mode::pooled);
  std::set<std::thread::id> workers;
  std::mutex mutex;
  std::vector<sched::TaskDevice> devices;
  std::atomic<int> inside{0};
  sched::DeviceOptions pooled;
  pooled.mode = Mode::pooled;
  for (int k = 0; k < 3; ++k) {
    devices.push_back(scheduler.new_device(pooled));
    devices.back().submit("who", [&] {
      {
        const std::lock_guard lock(mutex);
        workers.insert(std::this_thread::get_id());
      }
      ++inside;
      EXPECT_TRUE(test::before_long([&] { return inside == 3; }));
    });
  }
  for (const auto& device : devices) ASSERT_TRUE(device.await().ok());
  launch.given.each = [](std::uint32_t) {
    std::this_thread::sleep_for(1ms);
    return heddle_kernel_status{};
  };
  for (int times = 0; times < 10; ++times) ASSERT_TRUE(launch.submit(100).wait().ok());
  for (const std::thread::id each : launch.given.threads()) EXPECT_TRUE(workers.contains(each));
  EXPECT_GE(launch.given.threads().size(), 2U);
}

// S17, S24: the watchdog tells which part does not move, not what the task's own thread ran before
TEST(KernelOverdue, IsToldWithItsPart) {
  std::mutex mutex;
  std::vector<std::string> told;
  std::atomic<bool> over{false}, last_runs{false};
  SchedulerOptions options = of_width(2);
  options.watchdog = 20ms;
  options.on_overdue = [&](const std::vector<sched::Snapshot>& all) {
    for (const sched::Snapshot& each : all) {
      const std::lock_guard lock(mutex);
      if (!each.overdue) continue;
      told.push_back(each.part);
      EXPECT_LT(each.running_for, 1min);
      // On a loaded machine others stand still that long, too.
      if (each.part == "part 8 of 8") over = true;
    }
  };
  Scheduler scheduler(options);
  PartsLaunch launch(scheduler, Mode::threaded);
  std::thread::id own;
  ASSERT_TRUE(launch.device.submit("own", [&] { own = std::this_thread::get_id(); }).wait().ok());
  launch.given.each = [&](std::uint32_t part) {
    if (part == 7) {
      last_runs = true;
      EXPECT_TRUE(test::before_long([&] { return over.load(); }));
    } else if (std::this_thread::get_id() == own) {
      // A helper runs all others, and this thread has nothing to do while the last one runs.
      EXPECT_TRUE(test::before_long([&] { return last_runs.load(); }));
    }
    return heddle_kernel_status{};
  };
  ASSERT_TRUE(launch.submit(8).wait().ok());
  const std::lock_guard lock(mutex);
  EXPECT_THAT(told, testing::Contains("part 8 of 8"));
}

}  // namespace
}  // namespace heddle::rt
