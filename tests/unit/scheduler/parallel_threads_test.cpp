// Who runs the parts of tasks (S24): widths, crews and workers of pools, slow threads, watchdogs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/observe/watchdog.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/parallel_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::Mode;
using sched::TaskDevice;
using testing::HasSubstr;

/// Names of the threads on which parts ran. Any thread.
class ThreadNames {
 public:
  void add() {
    std::array<char, 16> name{};
    pthread_getname_np(pthread_self(), name.data(), name.size());
    const std::lock_guard lock(mutex_);
    names_.emplace(name.data());
  }
  [[nodiscard]] std::set<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(names_, {});
  }

 private:
  std::mutex mutex_;
  std::set<std::string> names_;
};

/// Parts that wait for each other, and so take as many threads; on which they ran.
std::set<std::string> all_meet(const TaskDevice& device, std::size_t threads) {
  ThreadNames names;
  std::atomic<std::size_t> begun{0};
  std::atomic<bool> failed{false};
  const auto part = [&](std::size_t /*from*/, std::size_t /*to*/) {
    names.add();
    ++begun;
    if (!test::before_long([&] { return begun >= threads; })) failed = true;
  };
  EXPECT_TRUE(device.submit_parallel("meet", threads, part, by(1)).wait().ok());
  EXPECT_FALSE(failed);
  return names.take();
}

// S24: what parts there are depends on range and grain alone
TEST(ParallelWidthTest, SamePartsAtAnyWidth) {
  std::set<std::vector<Ranges::Range>> cuts;
  for (const unsigned width : {1, 2, 3, 7}) {
    Scheduler scheduler(of_width(width));
    const TaskDevice device = scheduler.new_device("work");
    for (int round = 0; round < 20; ++round) {
      Ranges ranges;
      const auto part = [&](std::size_t from, std::size_t to) { ranges.add(from, to); };
      ASSERT_TRUE(device.submit_parallel("rows", 1000, part, by(7)).wait().ok());
      cuts.insert(ranges.take_sorted());
    }
  }
  ASSERT_EQ(cuts.size(), 1U);
  EXPECT_EQ(cuts.begin()->size(), 143U);
}

// S24: as many threads as the width says, in each mode that has threads, awake and asleep
TEST(ParallelWidthTest, AllTakePart) {
  for (const Mode mode : {Mode::threaded, Mode::inline_, Mode::pooled}) {
    for (const unsigned width : {1U, 2U, 3U, 7U}) {
      SchedulerOptions options = of_width(width);
      if (width == 7) options.profile.spin = 0ns;
      Scheduler scheduler(options);
      const TaskDevice device = scheduler.new_device(of_mode(mode));
      for (int round = 0; round < 5; ++round)
        EXPECT_EQ(all_meet(device, width).size(), width) << static_cast<int>(mode);
    }
  }
}

// S24: so many and no more, however many parts
TEST(ParallelWidthTest, NoMoreThanTheWidth) {
  for (const Mode mode : {Mode::threaded, Mode::inline_, Mode::pooled}) {
    SchedulerOptions options = of_width(2);
    options.workers = 4;
    Scheduler scheduler(options);
    const TaskDevice device = scheduler.new_device(of_mode(mode));
    std::atomic<int> inside{0}, most{0};
    const auto part = [&](std::size_t /*from*/, std::size_t /*to*/) {
      const int now = ++inside;
      for (int seen = most; now > seen && !most.compare_exchange_weak(seen, now);) {
      }
      std::this_thread::sleep_for(1ms);
      --inside;
    };
    ASSERT_TRUE(device.submit_parallel("rows", 50, part, by(1)).wait().ok());
    EXPECT_LE(most, 2);
  }
}

// S24: a thread that is slow, or taken away, holds up its own part and no other
TEST(ParallelWidthTest, SlowThreadDelaysItsPart) {
  for (const Mode mode : {Mode::threaded, Mode::pooled}) {
    Scheduler scheduler(of_width(2));
    const TaskDevice device = scheduler.new_device(of_mode(mode));
    std::atomic<int> ran{0};
    bool others_ran = false;
    const auto part = [&](std::size_t from, std::size_t /*to*/) {
      if (from == 0) others_ran = test::before_long([&] { return ran == 99; });
      ++ran;
    };
    EXPECT_TRUE(device.submit_parallel("rows", 100, part, by(1)).wait().ok());
    EXPECT_TRUE(others_ran);
  }
}

// S24, S14: helpers are there from the first task in parts on, and no longer than the scheduler;
// none for one thread, where the host runs the parts, or beside the workers of a pool
TEST(ParallelThreadsTest, NoThreadsWithoutNeed) {
  const LiveThreads before;
  const auto part = [](std::size_t /*from*/, std::size_t /*to*/) {};
  const auto started = [&](Mode mode, unsigned width) {
    Scheduler scheduler(of_width(width));
    const TaskDevice device = scheduler.new_device(of_mode(mode));
    const LiveThreads idle;
    for (int k = 0; k < 3; ++k) EXPECT_TRUE(device.submit_parallel("rows", 10, part).wait().ok());
    return idle.added();
  };
  EXPECT_EQ(started(Mode::threaded, 4), 3);
  EXPECT_EQ(started(Mode::inline_, 4), 3);
  EXPECT_EQ(started(Mode::pooled, 4), 0);
  EXPECT_EQ(started(Mode::manual, 4), 0);
  EXPECT_EQ(started(Mode::threaded, 1), 0);
  EXPECT_TRUE(before.others_end());
}

// S24: a scheduler has one set of threads at work: once there is a pool, its workers help all, from
// the first task on, though threads of the crew are leaving at that time
TEST(ParallelThreadsTest, PoolsTakeOver) {
  for (int time = 0; time < 20 && !HasFailure(); ++time) {
    Scheduler scheduler(of_width(3));
    const TaskDevice own = scheduler.new_device("own");
    EXPECT_EQ(all_meet(own, 3), (std::set<std::string>{"own", "host/team/0", "host/team/1"}));
    const TaskDevice pooled = scheduler.new_device(of_mode(Mode::pooled));
    for (int round = 0; round < 2; ++round) {
      for (const std::string& name : all_meet(own, 3))
        EXPECT_TRUE(name == "own" || !name.starts_with("host/team")) << name;
      EXPECT_EQ(all_meet(pooled, 3), (std::set<std::string>{"host/0", "host/1", "host/2"}));
    }
  }
}

// S24: between two parts a worker turns to devices that are ready
TEST(ParallelThreadsTest, WorkersLeaveForOtherDevices) {
  Scheduler scheduler(of_width(2));
  const TaskDevice device = scheduler.new_device(of_mode(Mode::pooled)),
                   other = scheduler.new_device(of_mode(Mode::pooled, "other"));
  std::atomic<bool> other_ran{false};
  std::atomic<int> before{0};
  const auto part = [&](std::size_t from, std::size_t /*to*/) {
    if (from == 0) {
      EXPECT_TRUE(test::before_long([&] { return other_ran.load(); }));
      return;
    }
    if (from == 1) other.submit("other", [&] { other_ran = true; });
    if (!other_ran) ++before;
    std::this_thread::sleep_for(100us);
  };
  ASSERT_TRUE(device.submit_parallel("rows", 1000, part, by(1)).wait().ok());
  EXPECT_LE(before, 10);
  EXPECT_EQ(all_meet(device, 2).size(), 2U);  // and comes back
}

// S24: several devices have tasks in parts at once: one has the helpers, each gets on
TEST(ParallelThreadsTest, DevicesShareTheHelpers) {
  for (const Mode mode : {Mode::threaded, Mode::pooled}) {
    Scheduler scheduler(of_width(3));
    std::vector<TaskDevice> devices;
    for (int k = 0; k < 4; ++k) devices.push_back(scheduler.new_device(of_mode(mode)));
    std::vector<Event> events;
    std::atomic<std::size_t> ran{0};
    const auto part = [&ran](std::size_t from, std::size_t to) { ran += to - from; };
    for (int round = 0; round < 500; ++round) {
      for (const TaskDevice& device : devices)
        events.push_back(device.submit_parallel("rows", 100, part, by(9)));
    }
    for (const Event& event : events) EXPECT_TRUE(event.wait().ok());
    EXPECT_EQ(ran, 500U * 4 * 100);
  }
}

// S24, S3: after the first task in parts none takes memory
TEST(ParallelCostTest, TakesNoMemory) {
  for (const Mode mode : {Mode::threaded, Mode::inline_, Mode::pooled}) {
    Scheduler scheduler(of_width(3));
    const TaskDevice device = scheduler.new_device(of_mode(mode));
    std::array<std::atomic<std::uint64_t>*, 4> words{};  // 32 bytes
    std::atomic<std::uint64_t> ran{0}, allocated{0};
    words[0] = &ran;
    words[1] = &allocated;
    const auto part = [words](std::size_t /*from*/, std::size_t /*to*/) { ++*words[0]; };
    device.submit_parallel("first", 100, part).wait();
    std::uint64_t at_first = 0, at_last = 0;
    device.submit("first", [&] { at_first = allocations(); }).wait();
    const std::uint64_t before = allocations();
    for (int k = 0; k < 100; ++k) device.submit_parallel("rows", 100, part);
    for (int k = 0; k < 100; ++k) device.submit_parallel("rows", 100, part, by(7));
    EXPECT_EQ(allocations(), before);
    device.submit("last", [&] { at_last = allocations(); }).wait();
    if (mode == Mode::threaded) {
      EXPECT_EQ(at_last, at_first);
    }
    EXPECT_EQ(ran, 101U * 24 + 100U * 15);
  }
}

// S24, bad input: widths that are none, or more than there are
TEST(ParallelWidthTest, NonsenseIsRefused) {
  const auto open = [](unsigned width, bool oversubscribed) {
    SchedulerOptions options;
    options.name = "host";
    options.width = width;
    options.oversubscribed = oversubscribed;
    static_cast<void>(Scheduler(options));
  };
  const unsigned there_are = available_processors();
  open(there_are, false);
  open(sched::width_max, true);
  for (const auto& [width, oversubscribed] :
       {std::pair(0U, false), std::pair(there_are + 1, false), std::pair(0U, true),
        std::pair(sched::width_max + 1, true)}) {
    const std::string expected =
        "scheduler 'host': width is " + std::to_string(width) + " (expected 1 to " +
        std::to_string(oversubscribed ? sched::width_max : std::min(there_are, sched::width_max));
    const auto opens = [&open, w = width, o = oversubscribed] { open(w, o); };
    EXPECT_THAT(opens, testing::ThrowsMessage<Error>(HasSubstr(expected)));
  }
}

// S24, S17: the report names the part that does not move
TEST(ParallelWatchdogTest, NamesThePart) {
  std::mutex mutex;
  std::condition_variable came;
  const std::string wanted = "part 4 of 10, indices [30, 40)";
  bool told = false;
  SchedulerOptions options = of_width(2);
  options.watchdog = 20ms;
  options.on_overdue = [&](const std::vector<sched::Snapshot>& devices) {
    const std::lock_guard lock(mutex);
    for (const sched::Snapshot& device : devices) told |= device.overdue && device.part == wanted;
    came.notify_all();
  };
  std::string logged;
  set_log_hook([&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    logged += line;
  });
  {
    Scheduler scheduler(options);
    const TaskDevice device = scheduler.new_device("work");
    const auto part = [&](std::size_t from, std::size_t /*to*/) {
      if (from != 30) return;
      std::unique_lock lock(mutex);
      EXPECT_TRUE(came.wait_for(lock, 20s, [&] { return told; }));
    };
    EXPECT_TRUE(device.submit_parallel("rows", 95, part, by(10)).wait().ok());
    EXPECT_EQ(device.snapshot().part, "");
  }
  set_log_hook({});
  EXPECT_THAT(logged, HasSubstr("runs 'rows' (ticket 1) for"));
  EXPECT_THAT(logged, HasSubstr(", in " + wanted));
}

// S24, S17: of parts that run the earliest is told, a helper's as the own thread's
TEST(ParallelWatchdogTest, SnapshotsTellTheEarliestPart) {
  Scheduler scheduler(of_width(2));
  const TaskDevice device = scheduler.new_device("work");
  std::array<std::atomic<bool>, 3> go{};
  std::atomic<int> begun{0};
  const auto part = [&](std::size_t from, std::size_t /*to*/) {
    ++begun;
    EXPECT_TRUE(test::before_long([&] { return go.at(from).load(); }));
  };
  const Event rows = device.submit_parallel("rows", 3, part, by(1));
  const auto tells = [&](const char* what) {
    return test::before_long([&] { return device.snapshot().part == what; });
  };
  ASSERT_TRUE(test::before_long([&] { return begun == 2; }));
  EXPECT_TRUE(tells("part 1 of 3, indices [0, 1)"));
  go[0] = true;
  EXPECT_TRUE(tells("part 2 of 3, indices [1, 2)"));
  go[1] = true;
  EXPECT_TRUE(tells("part 3 of 3, indices [2, 3)"));
  go[2] = true;
  EXPECT_TRUE(rows.wait().ok());
  for (std::atomic<bool>& each : go) each = false;
  begun = 0;
  const Event two = device.submit_parallel("rows", 2, part, by(1));
  ASSERT_TRUE(test::before_long([&] { return begun == 2; }));
  go[0] = true;
  EXPECT_TRUE(tells("part 2 of 2, indices [1, 2)"));
  go[1] = true;
  EXPECT_TRUE(two.wait().ok());
  const Event plain = device.submit("plain", [&] { test::before_long([&] { return !go[1]; }); });
  ASSERT_TRUE(test::before_long([&] { return device.snapshot().running == "plain"; }));
  EXPECT_EQ(device.snapshot().part, "");
  go[1] = false;
  EXPECT_TRUE(plain.wait().ok());
}

// S24, S17: a part that stands still after others moved is told too, once
TEST(OverduePartTest, ReportsEachPartOnce) {
  sched::OverdueFinder finder(100ms);
  const auto look = [&](std::chrono::milliseconds when, const char* part) {
    sched::Snapshot snapshot;
    snapshot.id = 1;
    snapshot.running = "rows";
    snapshot.running_ticket = 7;
    snapshot.part = part;
    std::vector<sched::Snapshot> devices{snapshot};
    const bool reported = finder.look(devices, Event::Clock::time_point{} + when);
    return std::pair(reported, devices[0].overdue);
  };
  EXPECT_EQ(look(0ms, "a"), std::pair(false, false));
  EXPECT_EQ(look(60ms, "b"), std::pair(false, false));
  EXPECT_EQ(look(100ms, "b"), std::pair(true, true));  // the task
  EXPECT_EQ(look(120ms, "b"), std::pair(false, true));
  EXPECT_EQ(look(160ms, "b"), std::pair(true, true));  // the part
  EXPECT_EQ(look(300ms, "b"), std::pair(false, true));
  EXPECT_EQ(look(310ms, "c"), std::pair(false, true));
  EXPECT_EQ(look(410ms, "c"), std::pair(true, true));
}

}  // namespace
}  // namespace heddle
