// User code in awkward places: callbacks and destructors that wait, drop the last handle, throw or
// signal; ends that race with submissions; waits that nobody will answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <mutex>
#include <thread>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::TaskDevice;
using testing::HasSubstr;

class FaultsTest : public DeviceTest {};
HEDDLE_DEVICE_SUITE(FaultsTest);

// S7, S10: the callback of a skipped task runs under no lock: it may ask the device and submit
TEST_P(FaultsTest, CallbackOfASkippedTaskMayUseTheDevice) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  device.wait(gate.next());
  device.submit("fail", [] { throw std::runtime_error("first"); });
  Status seen;
  Event refused;
  std::atomic<bool> called{false};
  const Event skipped = device.submit("skipped", [] {});
  skipped.then([&](const Status&) {
    seen = device.status();
    refused = device.submit("late", [] {});
    static_cast<void>(device.snapshot());
    called.store(true);
  });
  EXPECT_TRUE(gate.signal(1).ok());
  device.await();
  while (!called.load()) std::this_thread::yield();  // callbacks come after the end
  EXPECT_THAT(text(seen), HasSubstr("first"));
  EXPECT_FALSE(refused.accepted());
}

// S7, S16: a callback on the worker counts as part of the task that ended
TEST_P(FaultsTest, CallbackThatWaitsForItsDeviceIsRefused) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  device.wait(gate.next());
  const Event first = device.submit("first", [] {});
  const Event second = device.submit("second", [] {});
  Status on_await, on_wait, on_own;
  first.then([&](const Status&) {
    on_await = device.await();
    on_wait = second.wait();
    on_own = first.wait();
  });
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(on_await.code(), ErrorCode::failed_precondition);
  EXPECT_EQ(on_wait.code(), ErrorCode::failed_precondition);
  EXPECT_TRUE(on_own.ok());
}

// S13: the last handle may go in a callback, with tasks still queued
TEST_P(FaultsTest, LastHandleMayGoInACallback) {
  sched::ExternalTimeline gate("gate");
  Event queued;
  {
    auto device = std::make_shared<TaskDevice>(open("work"));
    device->wait(gate.next());
    const Event first = device->submit("first", [] {});
    queued = device->submit("queued", [] {});
    first.then([device](const Status&) mutable { device.reset(); });
  }
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(queued.wait().ok());
}

// S13: the last handle may go with the callable of a task that is cancelled
TEST_P(FaultsTest, LastHandleMayGoWithACancelledTask) {
  sched::ExternalTimeline gate("gate");
  Event queued;
  auto device = std::make_shared<TaskDevice>(open("work"));
  const TaskDevice::Clock::time_point start = TaskDevice::Clock::now();
  device->wait(gate.next());
  queued = device->submit("holder", [device] {});
  TaskDevice* const raw = device.get();
  device.reset();
  raw->cancel_pending();
  EXPECT_EQ(queued.wait().code(), ErrorCode::cancelled);
  EXPECT_LT(TaskDevice::Clock::now() - start, 30s);
}

// S13: what waits for ever when the last handle goes inside a task is cancelled after drain_max
TEST_P(FaultsTest, QueuedWaitsEndAfterTheLastHandleWentInsideATask) {
  sched::ExternalTimeline never("never"), gate("gate");
  sched::DeviceOptions o = options("work");
  o.drain_max = 20ms;
  auto device = std::make_shared<TaskDevice>(scheduler_.new_device(o));
  device->wait(gate.next());
  TaskDevice* const raw = device.get();
  raw->submit("last", [device = std::move(device)]() mutable { device.reset(); });
  raw->wait(never.next());
  const Event queued = raw->submit("queued", [] {});
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(queued.wait_for(60s).ok());
  EXPECT_TRUE(queued.done());
}

// S6, S13: a submission that races with a shutdown is refused or ends; nobody waits for ever
TEST_P(FaultsTest, SubmissionsRacingWithShutdownEnd) {
  for (int round = 0; round < 100; ++round) {
    const TaskDevice device = open("work", 16);
    std::atomic<bool> go{false};
    std::vector<std::thread> hosts;
    for (int t = 0; t < 3; ++t) {
      hosts.emplace_back([&] {
        while (!go) std::this_thread::yield();
        while (true) {
          const Event event = device.submit("step", [] {});
          if (!event.accepted()) {
            EXPECT_EQ(event.status().code(), ErrorCode::unavailable);
            return;
          }
          if (event.wait_for(60s).code() == ErrorCode::deadline) {
            ADD_FAILURE() << "accepted and never ended";
            return;
          }
        }
      });
    }
    go = true;
    EXPECT_TRUE(device.shutdown(30s).ok());
    for (auto& host : hosts) host.join();
    const auto c = device.counters();
    EXPECT_EQ(c.submitted, c.done + c.failed + c.skipped + c.cancelled);
  }
}

// S12: a cancel is for what was queued: later tasks run and are not asked to stop
TEST_P(FaultsTest, CancelRacingWithTasksDoesNotStopLaterOnes) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  for (int round = 0; round < 300; ++round) {
    std::thread canceller([&] { device.cancel_pending(); });
    for (int k = 0; k < 5; ++k) device.submit("step", [] {});
    canceller.join();
    device.await();
    bool stopped = true;
    sched::SubmitOptions after;
    after.after = {gate.next()};
    const Event last =
        device.submit("last", [&] { stopped = this_task::stop_token().stop_requested(); }, after);
    EXPECT_TRUE(gate.signal(static_cast<std::uint64_t>(round) + 1).ok());
    ASSERT_TRUE(last.wait().ok()) << text(last.status());
    ASSERT_FALSE(stopped);
  }
}

// S11: several hosts recover at once: one epoch for each failure
TEST_P(FaultsTest, ConcurrentRecoversStartOneEpoch) {
  const TaskDevice device = open("work");
  for (std::uint64_t round = 1; round <= 50; ++round) {
    EXPECT_FALSE(device.submit("fail", [] { throw 1; }).wait().ok());
    std::vector<std::thread> hosts;
    for (int t = 0; t < 3; ++t) hosts.emplace_back([&] { EXPECT_TRUE(device.recover().ok()); });
    for (auto& host : hosts) host.join();
    EXPECT_EQ(device.snapshot().recoveries, round);
    EXPECT_TRUE(device.submit("again", [] {}).wait().ok());
  }
}

// S11: old events keep how they ended; the first and the latest keep the whole text
TEST_P(FaultsTest, ManyFailuresKeepTheirEnds) {
  const TaskDevice device = open("work");
  sched::SubmitOptions contain;
  contain.contain = true;
  std::vector<Event> events;
  for (int k = 0; k < 3000; ++k) {
    events.push_back(
        device.submit("fail", [k] { throw std::runtime_error(std::to_string(k)); }, contain));
    events.push_back(device.submit("good", [] {}));
  }
  EXPECT_TRUE(device.await().ok());
  for (std::size_t k = 0; k < events.size(); ++k) {
    ASSERT_EQ(events[k].status().code(), k % 2 == 0 ? ErrorCode::device_failed : ErrorCode::ok);
  }
  EXPECT_THAT(text(events[events.size() - 2].status()), HasSubstr("2999"));
  EXPECT_THAT(text(events[0].status()), HasSubstr("cause: device_failed: 0"));
  EXPECT_THAT(text(events[2].status()), HasSubstr("no longer kept"));
}

// S5, S6, bad input: times that do not fit a clock are as good as for ever, or as now
TEST_P(FaultsTest, ExtremeTimeouts) {
  const TaskDevice device = open("work");
  const Event event = device.submit("step", [] {});
  EXPECT_TRUE(event.wait_for(std::chrono::nanoseconds::max()).ok());
  EXPECT_TRUE(device.await_for(std::chrono::nanoseconds::max()).ok());
  sched::ExternalTimeline gate("gate");
  const Event pending = gate.next();
  EXPECT_EQ(pending.wait_for(std::chrono::nanoseconds::min()).code(), ErrorCode::deadline);
  EXPECT_EQ(pending.wait_until(Event::Clock::time_point::min()).code(), ErrorCode::deadline);
  device.wait(pending);
  EXPECT_EQ(device.await_for(std::chrono::nanoseconds::min()).code(), ErrorCode::deadline);
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(device.shutdown(std::chrono::nanoseconds::max()).ok());
}

// S6: however long waits may spin
TEST_P(FaultsTest, TimedWaitsEndBeforeALongSpin) {
  sched::DeviceOptions spinning = options("work");
  spinning.spin = 24h;
  const TaskDevice device = scheduler_.new_device(spinning);
  sched::ExternalTimeline gate("gate");
  const Event never = gate.next();
  Status in_task;
  const Event task = device.submit("waits", [&] { in_task = never.wait_for(2ms); });
  EXPECT_EQ(never.wait_for(2ms).code(), ErrorCode::deadline);
  EXPECT_TRUE(task.wait().ok());
  EXPECT_EQ(in_task.code(), ErrorCode::deadline);
}

// S7, S20: a callback may signal the very timeline whose signal called it
TEST(ExternalTest, CallbackMaySignalItsOwnTimeline) {
  sched::ExternalTimeline stream("stream");
  const Event one = stream.next();
  const Event two = stream.next();
  Status second;
  one.then([&](const Status&) { second = stream.signal(2); });
  EXPECT_TRUE(stream.signal(1).ok());
  EXPECT_TRUE(second.ok());
  EXPECT_TRUE(two.done());
}

// S6, S20: whoever waits for a signaller that went away is told so
TEST(ExternalTest, DestroyedTimelineFailsWhatItOwed) {
  Event good, owed, last;
  std::thread host;
  {
    sched::ExternalTimeline stream("camera");
    good = stream.next();
    owed = stream.next();
    last = stream.next();
    EXPECT_TRUE(stream.signal(1).ok());
    host = std::thread([&] { EXPECT_EQ(owed.wait().code(), ErrorCode::unavailable); });
    const sched::ExternalTimeline copy = stream;
    EXPECT_FALSE(owed.done());
  }
  host.join();
  EXPECT_TRUE(good.status().ok());
  EXPECT_THAT(text(last.status()), HasSubstr("'camera' was destroyed"));
}

// S7, S21: what a callback throws goes to the log, on a refused event too
TEST(ExternalTest, ThrowingCallbacksAreLogged) {
  std::vector<std::string> lines;
  std::mutex mutex;
  set_log_hook([&](LogLevel, std::string_view line) {
    const std::lock_guard lock(mutex);
    lines.emplace_back(line);
  });
  sched::ExternalTimeline stream("stream");
  const Event event = stream.next();
  event.then([](const Status&) { throw std::runtime_error("later"); });
  event.then([](const Status&) { throw 7; });
  EXPECT_TRUE(stream.signal(1).ok());
  Event().then([](const Status&) { throw std::runtime_error("at once"); });
  set_log_hook({});
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_THAT(lines[0], HasSubstr("later"));
  EXPECT_THAT(lines[2], HasSubstr("at once"));
}

// S15: devices that wait for each other in a long chain open one after the other, not one inside
// the other
TEST(InlineChainTest, LongChainsDoNotNest) {
  constexpr int count = 20'000 / test::slower;
  Scheduler scheduler;
  sched::DeviceOptions o;
  o.mode = sched::Mode::inline_;
  o.queue_size = 2;
  sched::ExternalTimeline gate("gate");
  std::vector<TaskDevice> devices;
  Event before = gate.next();
  int ran = 0;
  for (int k = 0; k < count; ++k) {
    devices.push_back(scheduler.new_device(o));
    devices.back().wait(before);
    before = devices.back().submit("link", [&] { ++ran; });
  }
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(before.done());
  EXPECT_EQ(ran, count);
}

// S8, S15: a task that waits for a device that this thread has put off drains it first
TEST(InlineChainTest, WaitingDrainsWhatWasPutOff) {
  Scheduler scheduler;
  sched::DeviceOptions o;
  o.mode = sched::Mode::inline_;
  const TaskDevice a = scheduler.new_device(o), b = scheduler.new_device(o);
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  a.wait(opened);
  Event on_b;
  Status seen(ErrorCode::internal, "not run");
  a.submit("a", [&] { seen = on_b.wait(); });
  b.wait(opened);
  on_b = b.submit("b", [] {});
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(a.await().ok());
  EXPECT_TRUE(seen.ok()) << text(seen);
}

// S4, S16: no cycle of full queues: the inner task is suspended, and does not hold up the outer one
TEST(CycleTest, NestedInlineTasksDoNotHoldUpThoseBeneath) {
  Scheduler scheduler;
  sched::DeviceOptions o;
  o.queue_size = 1;
  const TaskDevice threaded = scheduler.new_device(o);
  o.mode = sched::Mode::inline_;
  const TaskDevice outer = scheduler.new_device(o), inner = scheduler.new_device(o);
  std::latch both(2);
  std::atomic<int> refused{0};
  const auto cross = [&](const TaskDevice& other) {
    both.arrive_and_wait();
    if (other.submit("cross", [] {}).status().code() == ErrorCode::exhausted) ++refused;
  };
  const Event on_thread = threaded.submit("to outer", [&] { cross(outer); });
  outer.submit("outer", [&] { inner.submit("inner", [&] { cross(threaded); }); });
  EXPECT_TRUE(on_thread.wait().ok());
  EXPECT_TRUE(outer.await().ok());
  EXPECT_TRUE(inner.await().ok());
  EXPECT_EQ(refused, 0);
}

}  // namespace
}  // namespace heddle
