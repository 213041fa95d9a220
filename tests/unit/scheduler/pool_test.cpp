// Many devices on few threads, and devices that the host runs (S15, S16).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>

#include <atomic>
#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/processors.hpp"
#include "scheduler/worker.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::Device;
using sched::DeviceCore;
using sched::ExternalTimeline;
using sched::Mode;
using testing::ElementsAre;
using testing::HasSubstr;

Device open(Scheduler& scheduler, Mode mode, std::string name, std::uint32_t capacity = 64) {
  sched::DeviceOptions options;
  options.name = std::move(name);
  options.mode = mode;
  options.capacity = capacity;
  return scheduler.new_device(options);
}

Scheduler with_workers(unsigned workers) {
  SchedulerOptions options;
  options.workers = workers;
  return Scheduler(options);
}

// S9, S15: what the workers' queue has no memory for gets its turn all the same
TEST(PoolTest, DevicesGetTheirTurnWithoutMemory) {
  Scheduler scheduler = with_workers(1);
  constexpr int count = 5000;
  std::vector<Device> devices;
  for (int k = 0; k < count; ++k)
    devices.push_back(open(scheduler, Mode::pooled, "d" + std::to_string(k), 2));
  std::optional<NoMemory> none;  // the worker's
  std::atomic<int> left{count};
  std::latch begun(1), go(1);
  devices.front().submit("hold", [&] {
    begun.count_down();
    go.wait();
    none.emplace();
  });
  begun.wait();
  for (const Device& device : devices) {
    const Event event = device.submit("task", [&] {
      if (--left == 0) none.reset();
    });
    ASSERT_TRUE(event.accepted());
  }
  go.count_down();
  for (const Device& device : devices) ASSERT_TRUE(device.await().ok());
}

// S15: ten thousand devices, two threads, each device in its order
TEST(PoolTest, TenThousandDevicesShareTwoThreads) {
  const int before = live_threads();
  Scheduler scheduler = with_workers(2);
  std::vector<Device> devices;
  for (int k = 0; k < 10'000; ++k)
    devices.push_back(open(scheduler, Mode::pooled, "d" + std::to_string(k), 8));
  EXPECT_LE(live_threads(), before + 2);
  std::vector<std::vector<int>> seen(devices.size());
  for (int round = 0; round < 3; ++round) {
    for (std::size_t k = 0; k < devices.size(); ++k)
      devices[k].submit("round", [&seen, k, round] { seen[k].push_back(round); });
  }
  for (const Device& device : devices) ASSERT_TRUE(device.await().ok());
  for (const auto& rounds : seen) ASSERT_THAT(rounds, ElementsAre(0, 1, 2));
}

// S16: what a task waits for runs on the one thread that there is
TEST(PoolTest, WaitingTasksCostNoThread) {
  Scheduler scheduler = with_workers(1);
  const Device last = open(scheduler, Mode::pooled, "last");
  std::vector<Device> chain;
  for (int k = 0; k < 100; ++k) chain.push_back(open(scheduler, Mode::pooled, "c"));
  ExternalTimeline gate("gate");
  const Event opened = gate.next();
  std::atomic<int> ran{0};
  Event before = opened;
  std::vector<Event> events;
  for (const Device& device : chain) {
    before = device.submit("awaits", [before, &ran] {
      EXPECT_TRUE(this_task::await(before).ok());
      EXPECT_STREQ(this_task::label(), "awaits");
      ++ran;
    });
  }
  EXPECT_TRUE(last.submit("runs meanwhile", [] {}).wait().ok());
  EXPECT_EQ(ran, 0);
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(before.wait().ok());
  EXPECT_EQ(ran, 100);
}

// S4, S16: a full queue and an idle wait suspend too
TEST(PoolTest, FullQueuesAndAwaitsSuspendTheirTask) {
  Scheduler scheduler = with_workers(1);
  const Device small = open(scheduler, Mode::pooled, "small", 2);
  const Device other = open(scheduler, Mode::pooled, "other");
  std::atomic<int> ran{0};
  const Event all = other.submit("fills", [&] {
    for (int k = 0; k < 100; ++k) EXPECT_TRUE(small.submit("count", [&ran] { ++ran; }).accepted());
    EXPECT_TRUE(small.await().ok());
    EXPECT_EQ(ran, 100);
  });
  EXPECT_TRUE(all.wait().ok());
}

// S4: two tasks on one thread, each blocked on the other's full queue
TEST(PoolTest, ACycleOfFullQueuesIsRefused) {
  Scheduler scheduler = with_workers(1);
  const Device a = open(scheduler, Mode::pooled, "a", 1), b = open(scheduler, Mode::pooled, "b", 1);
  ExternalTimeline gate("gate");
  const Event opened = gate.next();
  std::atomic<int> refused{0};
  const auto cross = [&](const Device& other) {
    return [&, other] {
      EXPECT_TRUE(this_task::await(opened).ok());
      if (other.submit("cross", [] {}).status().code() == ErrorCode::exhausted) ++refused;
    };
  };
  const Event first = a.submit("to b", cross(b)), second = b.submit("to a", cross(a));
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(first.wait().ok());
  EXPECT_TRUE(second.wait().ok());
  EXPECT_EQ(refused, 1);
}

// S16: timed waits suspend as well, and end on time or with their event
TEST(PoolTest, TimedWaitsSuspendTheirTask) {
  Scheduler scheduler = with_workers(1);
  const Device waits = open(scheduler, Mode::pooled, "waits");
  const Device runs = open(scheduler, Mode::pooled, "runs");
  ExternalTimeline gate("gate");
  const Event never = gate.next();
  const Event late = waits.submit("late", [&] {
    const auto start = Event::Clock::now();
    EXPECT_EQ(never.wait_for(30ms).code(), ErrorCode::deadline);
    EXPECT_GE(Event::Clock::now() - start, 30ms);
  });
  EXPECT_TRUE(runs.submit("meanwhile", [] {}).wait().ok());
  EXPECT_FALSE(late.done());
  EXPECT_TRUE(late.wait().ok());
  const Event meanwhile = waits.submit("meanwhile", [&] {
    const Event soon = runs.submit("soon", [] {});
    EXPECT_TRUE(soon.wait_for(60s).ok());
    EXPECT_EQ(runs.await_for(60s).code(), ErrorCode::ok);
  });
  EXPECT_TRUE(meanwhile.wait().ok());
}

// S12: who cancels wakes a suspended timed wait
TEST(PoolTest, CancelEndsATimedWait) {
  Scheduler scheduler = with_workers(1);
  const Device device = open(scheduler, Mode::pooled, "waits");
  ExternalTimeline gate("gate");
  const Event never = gate.next();
  std::latch begun(1);
  const Event waiting = device.submit("waits", [&]() -> Status {
    begun.count_down();
    return never.wait_for(1h);
  });
  begun.wait();
  device.cancel_pending();
  EXPECT_EQ(waiting.wait().code(), ErrorCode::cancelled);
}

// S1: a device that never runs dry gives way to the others
TEST(PoolTest, BusyDevicesGiveWay) {
  Scheduler scheduler = with_workers(1);
  const Device busy = open(scheduler, Mode::pooled, "busy");
  const Device other = open(scheduler, Mode::pooled, "other");
  std::atomic<bool> stop{false};
  const std::function<void()> again = [&] {
    if (!stop.load()) busy.submit("again", [&again] { again(); });
  };
  busy.submit("again", [&again] { again(); });
  EXPECT_TRUE(other.submit("other", [] {}).wait().ok());
  stop.store(true);
  while (!busy.is_idle()) EXPECT_TRUE(busy.await().ok());
}

// S13, S14: devices may outlive their scheduler, and go inside a task; no thread is left
TEST(PoolTest, WorkersEndWithTheLastDevice) {
  const int before = live_threads();
  for (const bool inside : {false, true}) {
    for (int round = 0; round < 25; ++round) {
      auto scheduler = std::make_unique<Scheduler>(with_workers(2));
      auto device = std::make_shared<Device>(open(*scheduler, Mode::pooled, "work"));
      EXPECT_TRUE(device->submit("first", [] {}).accepted());
      scheduler.reset();
      if (inside) {
        Device* const raw = device.get();
        sched::ExternalTimeline returned("submit returned");  // the handle is used until then
        const Event may_drop = returned.next();
        sched::SubmitOptions options;
        options.after.push_back(may_drop);
        raw->submit("drops", [device = std::move(device)]() mutable { device.reset(); }, options);
        EXPECT_TRUE(returned.signal(may_drop.ticket()).ok());
      } else {
        device.reset();
        ASSERT_LE(live_threads(), before);
      }
    }
  }
  EXPECT_TRUE(threads_end(before));  // workers that were inside end by themselves
}

// S19
TEST(PoolTest, WorkersMayBePinned) {
  const std::vector<unsigned> allowed = sched::allowed_processors();
  SchedulerOptions options;
  options.workers = static_cast<unsigned>(allowed.size()) + 1;
  options.pin_workers = true;
  Scheduler scheduler(options);
  // Each worker holds one task until all have told where they may run.
  std::vector<Device> devices;
  std::latch all(*options.workers);
  std::mutex mutex;
  std::vector<std::vector<unsigned>> masks;
  for (unsigned k = 0; k < *options.workers; ++k) {
    devices.push_back(open(scheduler, Mode::pooled, "pinned"));
    devices.back().submit("ask", [&] {
      const auto mask = sched::allowed_processors();
      {
        const std::lock_guard lock(mutex);
        masks.push_back(mask);
      }
      all.arrive_and_wait();
    });
  }
  for (const Device& device : devices) ASSERT_TRUE(device.await().ok());
  // In turn, from the first one on.
  std::vector<std::vector<unsigned>> expected{{allowed.front()}};
  for (const unsigned processor : allowed) expected.push_back({processor});
  EXPECT_THAT(masks, testing::UnorderedElementsAreArray(expected));
}

// S19: a thread of a device's own, on whichever processor was asked for
TEST(PoolTest, ThreadsOfDevicesMayBePinned) {
  Scheduler scheduler;
  sched::DeviceOptions own;
  for (const unsigned processor : sched::allowed_processors()) {
    own.processor = processor;
    const Device device = scheduler.new_device(own);
    std::vector<unsigned> mask;
    EXPECT_TRUE(device.submit("ask", [&] { mask = sched::allowed_processors(); }).wait().ok());
    EXPECT_THAT(mask, ElementsAre(processor));
  }
  own.processor = 100'000;
  EXPECT_THAT([&] { static_cast<void>(scheduler.new_device(own)); },
              testing::ThrowsMessage<Error>(HasSubstr("may not use processor 100000")));
}

TEST(PoolTest, NoWorkersAreRefused) {
  EXPECT_THAT([] { with_workers(0); }, testing::ThrowsMessage<Error>(HasSubstr("0 workers")));
}

// S15: nothing runs but where the host says so
TEST(ManualTest, RunsWhereTheHostPolls) {
  Scheduler scheduler;
  EXPECT_FALSE(scheduler.poll());
  const Device a = open(scheduler, Mode::manual, "a"), b = open(scheduler, Mode::manual, "b");
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
  const Device a = open(scheduler, Mode::manual, "a"), b = open(scheduler, Mode::manual, "b");
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
  const Device busy = open(scheduler, Mode::manual, "busy");
  const Device idle = open(scheduler, Mode::manual, "idle");
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
  const Device device = open(scheduler, Mode::manual, "work");
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
  const Device device = open(scheduler, Mode::manual, "work");
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
  const Device device = open(scheduler, Mode::manual, "work");
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
  const Device device = open(scheduler, Mode::manual, "work");
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
    const Device device = open(scheduler, Mode::manual, "work");
    core = DeviceCore::of(device);
    device.submit("only one", [] {});
    EXPECT_TRUE(scheduler.run_one());
    EXPECT_TRUE(device.is_idle());
    device.cancel_pending();
  }
  EXPECT_TRUE(core.expired());
}

// S15: run_one waits for somebody else's submit, up to its budget; several threads may run
TEST(ManualTest, RunOneWaitsAndThreadsShare) {
  Scheduler scheduler;
  const Device device = open(scheduler, Mode::manual, "work", 4096);
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
