// The watchdog, and what snapshots say of waits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <condition_variable>
#include <fstream>
#include <latch>
#include <mutex>
#include <thread>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/observe/watchdog.hpp"
#include "tests/support/logged.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::OverdueFinder;
using sched::Snapshot;
using sched::TaskDevice;
using testing::AllOf;
using testing::HasSubstr;

class SnapshotTest : public DeviceTest {};
HEDDLE_DEVICE_SUITE(SnapshotTest);

// S17: a forgotten signal is named, of a gate and of a task that awaits
TEST_P(SnapshotTest, NamesWhoMustSignal) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline sensor("sensor");
  const Event gate = sensor.next(), inside = sensor.next();
  device.wait(gate);
  device.submit("reads", [inside] { this_task::await(inside); });
  const auto wait_for = [&](const std::string& event) {
    while (device.snapshot().waiting_for.find(event) == std::string::npos) run_ready();
    return device.snapshot();
  };
  const Snapshot at_gate = wait_for("sensor#1");
  EXPECT_EQ(at_gate.signaller, "the holder of timeline 'sensor'");
  EXPECT_EQ(at_gate.running_ticket, 1u);
  EXPECT_EQ(at_gate.id, device.id());
  EXPECT_GE(at_gate.waiting_time, 0ns);
  EXPECT_THAT(
      at_gate.to_string(),
      HasSubstr("waits for sensor#1 pending, which the holder of timeline 'sensor' must end"));
  ASSERT_TRUE(sensor.signal(gate.ticket()).ok());
  const Snapshot in_task = wait_for("sensor#2");
  EXPECT_EQ(in_task.running, "reads");
  EXPECT_EQ(in_task.running_ticket, 2u);
  ASSERT_TRUE(sensor.signal(inside.ticket()).ok());
  EXPECT_TRUE(device.await().ok());
  const Snapshot idle = device.snapshot();
  EXPECT_EQ(idle.waiting_for, "");
  EXPECT_EQ(idle.signaller, "");
  EXPECT_EQ(idle.running_ticket, 0u);
}

TEST_P(SnapshotTest, NamesTheDeviceThatItWaitsFor) {
  sched::ExternalTimeline sensor("sensor");
  const Event pending = sensor.next();
  const TaskDevice first = open("first"), second = open("second");
  const Event held = first.wait(pending);
  second.wait(held);
  while (second.snapshot().waiting_for.empty()) run_ready();
  EXPECT_EQ(second.snapshot().signaller, "device 'first'");
  ASSERT_TRUE(sensor.signal(pending.ticket()).ok());
  EXPECT_TRUE(second.await().ok());
}

// S17: spins and parks are told apart
TEST(CountersTest, SpinsAndParks) {
  Scheduler scheduler;
  sched::DeviceOptions o;
  o.spin = 1h;
  const TaskDevice spins = scheduler.new_device(o);
  for (int k = 0; k < 10; ++k) spins.submit("task", [] {}).wait();
  while (spins.counters().spins == 0) spins.submit("task", [] {}).wait();
  EXPECT_EQ(spins.counters().parks, 0u);
  o.spin = 0ns;
  const TaskDevice parks = scheduler.new_device(o);
  while (parks.counters().parks < 3) parks.submit("task", [] {}).wait();
}

Snapshot busy(std::uint64_t device, std::uint64_t ticket) {
  Snapshot snapshot;
  snapshot.id = device;
  snapshot.device = "d";
  snapshot.running = "task";
  snapshot.running_ticket = ticket;
  return snapshot;
}

// S17: once for each task, however long it takes; a device that moves is never reported
TEST(OverdueFinderTest, ReportsEachTaskOnce) {
  OverdueFinder finder(100ms);
  const Event::Clock::time_point start{};
  const auto look = [&](std::chrono::milliseconds when, std::vector<Snapshot> devices) {
    const bool reported = finder.look(devices, start + when);
    std::string overdue;
    for (const Snapshot& device : devices) overdue += device.overdue ? '*' : '.';
    return std::pair(reported, overdue);
  };
  EXPECT_EQ(look(0ms, {busy(1, 5), busy(2, 1)}), std::pair(false, std::string("..")));
  EXPECT_EQ(look(99ms, {busy(1, 5), busy(2, 2)}), std::pair(false, std::string("..")));
  EXPECT_EQ(look(100ms, {busy(1, 5), busy(2, 3)}), std::pair(true, std::string("*.")));
  EXPECT_EQ(look(150ms, {busy(1, 5), busy(2, 3)}), std::pair(false, std::string("*.")));
  EXPECT_EQ(look(200ms, {busy(1, 5), busy(2, 3)}), std::pair(true, std::string("**")));
  EXPECT_EQ(look(300ms, {busy(1, 6), busy(2, 3)}), std::pair(false, std::string(".*")));
  EXPECT_EQ(look(400ms, {busy(1, 6)}), std::pair(true, std::string("*")));
  Snapshot queued = busy(1, 7);
  queued.running.clear();
  EXPECT_EQ(look(410ms, {queued}), std::pair(false, std::string(".")));
  EXPECT_EQ(look(900ms, {queued}), std::pair(false, std::string(".")));
}

/// Reports, as they come.
class Reports {
 public:
  void add(const std::vector<Snapshot>& devices) {
    const std::lock_guard lock(mutex_);
    reports_.push_back(devices);
    came_.notify_all();
  }
  std::vector<Snapshot> wait() {
    std::unique_lock lock(mutex_);
    came_.wait(lock, [&] { return !reports_.empty(); });
    return reports_.front();
  }
  std::size_t count() {
    const std::lock_guard lock(mutex_);
    return reports_.size();
  }

 private:
  std::mutex mutex_;
  std::condition_variable came_;
  std::vector<std::vector<Snapshot>> reports_;
};

// S17: a forgotten foreign signal
TEST(WatchdogTest, NamesAForgottenSignal) {
  const test::Logged log;
  Reports reports;
  sched::ExternalTimeline sensor("sensor");
  SchedulerOptions options;
  options.name = "plant";
  options.watchdog = 20ms;
  options.on_overdue = [&](const auto& devices) { reports.add(devices); };
  {
    Scheduler scheduler(options);
    const TaskDevice idle = scheduler.new_device("idle"), work = scheduler.new_device("work");
    const Event never = sensor.next();
    work.wait(never);
    const auto report = reports.wait();
    ASSERT_EQ(report.size(), 2u);
    EXPECT_FALSE(report[0].overdue);
    EXPECT_TRUE(report[1].overdue);
    EXPECT_EQ(report[1].device, "work");
    EXPECT_EQ(report[1].signaller, "the holder of timeline 'sensor'");
    EXPECT_THAT(log.text(), AllOf(HasSubstr("watchdog of 'plant'"), HasSubstr("20 ms"),
                                  HasSubstr("'work' (ticket 1)"), HasSubstr("sensor#1"),
                                  HasSubstr("holder of timeline 'sensor'"), HasSubstr("idle: 0")));
    // Another one that is overdue: the watchdog has looked again, and did not repeat the first.
    std::latch release(1);
    const TaskDevice other = scheduler.new_device("other");
    other.submit("slow", [&] { release.wait(); });
    while (reports.count() < 2) std::this_thread::yield();
    EXPECT_EQ(reports.count(), 2u);
    release.count_down();
    ASSERT_TRUE(sensor.signal(never.ticket()).ok());
    EXPECT_TRUE(scheduler.shutdown(10s).ok());
  }
}

// S17, S14: off by default, no thread before the first device, none left behind
TEST(WatchdogTest, HasAThreadOnlyWhileThereAreDevices) {
  const LiveThreads before;
  sched::DeviceOptions inline_device;
  inline_device.mode = sched::Mode::inline_;
  SchedulerOptions options;
  {
    Scheduler off(options);
    const TaskDevice device = off.new_device(inline_device);
    EXPECT_EQ(before.added(), 0);
    options.watchdog = 1h;
    Scheduler on(options);
    EXPECT_EQ(before.added(), 0);
    const TaskDevice watched = on.new_device(inline_device);
    EXPECT_EQ(before.added(), 1);
  }
  EXPECT_EQ(before.added(), 0);
}

TEST(WatchdogTest, ItsReportMayThrowAndMayDropTheScheduler) {
  const test::Logged log;
  std::latch dropped(1);
  std::latch release(1);
  auto scheduler = std::make_shared<std::optional<Scheduler>>();
  SchedulerOptions options;
  options.watchdog = 5ms;
  options.on_overdue = [&, scheduler](const auto&) {
    scheduler->reset();
    dropped.count_down();
    throw std::runtime_error("planted");
  };
  scheduler->emplace(options);
  const TaskDevice device = (*scheduler)->new_device("work");
  device.submit("slow", [&] { release.wait(); });
  dropped.wait();
  while (log.text().find("planted") == std::string::npos) std::this_thread::yield();
  release.count_down();
  EXPECT_TRUE(device.await().ok());
}

TEST(WatchdogTest, RefusesALimitOfNothing) {
  SchedulerOptions options;
  options.watchdog = 0ns;
  EXPECT_THROW(Scheduler{options}, Error);
}

}  // namespace
}  // namespace heddle
