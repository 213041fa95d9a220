// Devices that the host runs, in its own loop (S15).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/device/device_core.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::DeviceCore;
using sched::ExternalTimeline;
using sched::Mode;
using sched::TaskDevice;
using testing::ElementsAre;

TaskDevice open(Scheduler& scheduler, std::string name, std::uint32_t capacity = 64) {
  sched::DeviceOptions options;
  options.name = std::move(name);
  options.mode = Mode::manual;
  options.queue_size = capacity;
  return scheduler.new_device(options);
}

// S15: nothing runs but where the host says so
TEST(ManualTest, RunsWhereTheHostPolls) {
  Scheduler scheduler;
  EXPECT_FALSE(scheduler.poll());
  const TaskDevice a = open(scheduler, "a"), b = open(scheduler, "b");
  std::vector<std::string> order;
  std::thread::id where;
  a.submit("a1", [&] { order.emplace_back("a1"); });
  a.submit("a2", [&] { order.emplace_back("a2"); });
  const Event last = b.submit("b1", [&] {
    order.emplace_back("b1");
    where = std::this_thread::get_id();
  });
  EXPECT_TRUE(order.empty());
  EXPECT_TRUE(scheduler.run_one());
  EXPECT_THAT(order, ElementsAre("a1"));
  EXPECT_TRUE(scheduler.poll());
  EXPECT_THAT(order, testing::UnorderedElementsAre("a1", "a2", "b1"));
  EXPECT_EQ(where, std::this_thread::get_id());
  EXPECT_TRUE(last.done());
  EXPECT_FALSE(scheduler.poll());
  EXPECT_FALSE(scheduler.run_one());
}

// S6: a wait of the host runs what it waits for
TEST(ManualTest, WaitingForADeviceRunsIt) {
  Scheduler scheduler;
  const TaskDevice a = open(scheduler, "a"), b = open(scheduler, "b");
  int ran = 0;
  const Event first = a.submit("first", [&] { ++ran; });
  b.wait(first);
  const Event second = b.submit("second", [&] { ++ran; });
  EXPECT_TRUE(second.wait().ok());
  EXPECT_EQ(ran, 2);
  ExternalTimeline never("never");
  a.wait(never.next());
  EXPECT_EQ(a.await_for(5ms).code(), ErrorCode::deadline);
  EXPECT_EQ(a.record().wait_for(5ms).code(), ErrorCode::deadline);
}

// S6, S15
TEST(ManualTest, TimedWaitsEndThoughOthersAreAlwaysReady) {
  Scheduler scheduler;
  const TaskDevice busy = open(scheduler, "busy");
  const TaskDevice idle = open(scheduler, "idle");
  std::atomic<bool> stop{false};
  std::function<void()> again = [&] {
    if (!stop.load()) busy.submit("again", [&again] { again(); });
  };
  again();
  ExternalTimeline gate("gate");
  idle.wait(gate.next());
  EXPECT_EQ(idle.await_for(5ms).code(), ErrorCode::deadline);
  stop.store(true);
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(idle.await().ok());
  EXPECT_TRUE(busy.await().ok());
}

// S15, S17: what nobody has begun is not said to run
TEST(ManualTest, SnapshotsTellQueuedFromRunning) {
  Scheduler scheduler;
  const TaskDevice device = open(scheduler, "work");
  device.submit("first", [] {});
  EXPECT_TRUE(device.snapshot().running.empty());
  EXPECT_TRUE(scheduler.poll());
  std::string inside;
  device.submit("second", [&] { inside = device.snapshot().running; });
  EXPECT_TRUE(device.snapshot().running.empty());
  EXPECT_TRUE(scheduler.poll());
  EXPECT_EQ(inside, "second");
}

// S15: a task that waits lets the host go on, and goes on in a later poll
TEST(ManualTest, WaitingTasksLetTheHostGoOn) {
  Scheduler scheduler;
  const TaskDevice device = open(scheduler, "work");
  ExternalTimeline host("host");
  const Event later = host.next();
  const Event waiting = device.submit("waits", [&] { EXPECT_TRUE(this_task::await(later).ok()); });
  EXPECT_TRUE(scheduler.poll());
  EXPECT_FALSE(waiting.done());
  EXPECT_FALSE(scheduler.poll());
  EXPECT_TRUE(host.signal(later.ticket()).ok());
  EXPECT_FALSE(waiting.done());
  EXPECT_TRUE(scheduler.poll());
  EXPECT_TRUE(waiting.done());
}

// S15: for a host's event loop: readable while something is ready, and when a timed wait is over
TEST(ManualTest, DescriptorTellsWhenToPoll) {
  Scheduler scheduler;
  pollfd readable{scheduler.descriptor(), POLLIN, 0};
  scheduler.poll();
  EXPECT_EQ(::poll(&readable, 1, 0), 0);
  const TaskDevice device = open(scheduler, "work");
  device.submit("step", [] {});
  EXPECT_EQ(::poll(&readable, 1, 0), 1);
  EXPECT_TRUE(scheduler.poll());
  EXPECT_EQ(::poll(&readable, 1, 0), 0);

  ExternalTimeline host("host");
  const Event never = host.next();
  const Event late =
      device.submit("late", [&] { EXPECT_EQ(never.wait_for(10ms).code(), ErrorCode::deadline); });
  EXPECT_TRUE(scheduler.poll());
  EXPECT_FALSE(late.done());
  EXPECT_EQ(::poll(&readable, 1, 60'000), 1);
  while (!late.done() && ::poll(&readable, 1, 60'000) == 1) scheduler.poll();
  EXPECT_TRUE(late.done());
  scheduler.poll();
  EXPECT_EQ(::poll(&readable, 1, 0), 0);

  std::thread([&] { device.submit("from afar", [] {}); }).join();
  EXPECT_EQ(::poll(&readable, 1, 0), 1);
}

// S15: nothing is ready after the last task, nor while the next one may not begin
TEST(ManualTest, TellsWhetherATaskRan) {
  Scheduler scheduler;
  pollfd readable{scheduler.descriptor(), POLLIN, 0};
  const auto is_readable = [&] { return ::poll(&readable, 1, 0) == 1; };
  EXPECT_FALSE(is_readable());
  const TaskDevice device = open(scheduler, "work");
  device.submit("first", [] {});
  device.submit("second", [] {});
  EXPECT_TRUE(scheduler.run_one());
  EXPECT_TRUE(is_readable());
  EXPECT_TRUE(scheduler.run_one());
  EXPECT_FALSE(is_readable());
  EXPECT_FALSE(scheduler.run_one());
  EXPECT_FALSE(scheduler.poll());

  ExternalTimeline host("host");
  device.wait(host.next());
  EXPECT_FALSE(scheduler.run_one());
  EXPECT_FALSE(is_readable());
  EXPECT_TRUE(host.signal(1).ok());
  EXPECT_TRUE(is_readable());
  EXPECT_TRUE(scheduler.run_one());
  EXPECT_FALSE(is_readable());

  device.submit("awaited", [] {}).wait();
  EXPECT_FALSE(is_readable());
}

// S14: a device may be left queued for a look that never comes
TEST(ManualTest, QueuedDeviceGoesWithItsLastHandle) {
  std::weak_ptr<DeviceCore> core;
  {
    Scheduler scheduler;
    const TaskDevice device = open(scheduler, "work");
    core = DeviceCore::of(device);
    device.submit("only one", [] {});
    EXPECT_TRUE(scheduler.run_one());
    EXPECT_TRUE(device.is_idle());
    device.cancel_pending();
  }
  EXPECT_TRUE(core.expired());
}

// S15: also where no manual device was opened yet: what is opened meanwhile ends the wait
TEST(ManualTest, RunOneWaitsForTheFirstDevice) {
  Scheduler scheduler;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(scheduler.run_one());
  EXPECT_FALSE(scheduler.run_one(2ms));
  EXPECT_GE(std::chrono::steady_clock::now() - start, 2ms);
  std::thread opener([&] {
    const TaskDevice device = open(scheduler, "work", 8);
    const Event end = device.submit("from afar", [] {});
    while (!end.done()) std::this_thread::yield();  // a wait would run it here
  });
  EXPECT_TRUE(scheduler.run_one(60s));
  opener.join();
}

// S15: run_one waits for somebody else's submit, up to its budget; several threads may run
TEST(ManualTest, RunOneWaitsAndThreadsShare) {
  Scheduler scheduler;
  const TaskDevice device = open(scheduler, "work", 4096);
  EXPECT_FALSE(scheduler.run_one(2ms));
  std::thread submitter([&] { device.submit("from afar", [] {}); });
  EXPECT_TRUE(scheduler.run_one(60s));
  submitter.join();

  std::atomic<int> inside{0}, overlaps{0}, ran{0};
  for (int k = 0; k < 2000; ++k) {
    device.submit("one at a time", [&] {
      if (inside.fetch_add(1) != 0) ++overlaps;
      ++ran;
      inside.fetch_sub(1);
    });
  }
  std::vector<std::thread> hosts;
  for (int k = 0; k < 3; ++k) {
    hosts.emplace_back([&] {
      while (ran.load() < 2000) scheduler.run_one();
    });
  }
  for (std::thread& host : hosts) host.join();
  EXPECT_EQ(overlaps, 0);
  EXPECT_EQ(ran, 2000);
}

}  // namespace
}  // namespace heddle
