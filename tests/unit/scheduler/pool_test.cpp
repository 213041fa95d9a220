// Many devices on few threads, and devices that the host runs (S15, S16).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <latch>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/threads/processors.hpp"
#include "tests/support/seeds.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::ExternalTimeline;
using sched::Mode;
using sched::TaskDevice;
using testing::ElementsAre;
using testing::HasSubstr;

TaskDevice open(Scheduler& scheduler, Mode mode, std::string name, std::uint32_t capacity = 64) {
  sched::DeviceOptions options;
  options.name = std::move(name);
  options.mode = mode;
  options.queue_size = capacity;
  return scheduler.new_device(options);
}

Scheduler with_workers(unsigned workers) {
  SchedulerOptions options;
  options.workers = workers;
  return Scheduler(options);
}

// S15: devices that become ready while one of three workers looks, for which it therefore wakes
// nobody, each get a worker, though all of them keep theirs
TEST(PoolTest, WhatComesWhileOneLooksWakesTheOthersToo) {
  constexpr auto spin = 1ms;
  constexpr int count = 3;
  SchedulerOptions options;
  options.workers = count;
  options.device.mode = Mode::pooled;
  options.device.spin = spin;
  Scheduler scheduler(options);
  std::vector<TaskDevice> devices;
  for (int k = 0; k < count; ++k) devices.push_back(scheduler.new_device("d" + std::to_string(k)));
  for (int round = 0; round < 50 && !HasFailure(); ++round) {
    std::this_thread::sleep_for(3 * spin);  // all sleep
    EXPECT_TRUE(devices.front().submit("wakes one", [] {}).wait().ok());
    std::latch all(count);
    std::atomic<bool> late{false};
    for (const TaskDevice& device : devices) {
      device.submit("keeps its worker", [&] {
        all.count_down();
        while (!all.try_wait() && !late) std::this_thread::yield();
      });
    }
    const auto give_up_at = std::chrono::steady_clock::now() + 10s;
    while (!all.try_wait() && std::chrono::steady_clock::now() < give_up_at)
      std::this_thread::yield();
    EXPECT_TRUE(all.try_wait()) << "round " << round << ": a worker sleeps beside a ready device";
    late = true;
    for (const TaskDevice& device : devices) EXPECT_TRUE(device.await().ok());
  }
}

// S9, S15: what the workers' queue has no memory for gets its turn all the same
TEST(PoolTest, DevicesGetTheirTurnWithoutMemory) {
  Scheduler scheduler = with_workers(1);
  constexpr int count = 5000 / test::slower;
  std::vector<TaskDevice> devices;
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
  for (const TaskDevice& device : devices) {
    const Event event = device.submit("task", [&] {
      if (--left == 0) none.reset();
    });
    ASSERT_TRUE(event.accepted());
  }
  go.count_down();
  for (const TaskDevice& device : devices) ASSERT_TRUE(device.await().ok());
}

// S15: ten thousand devices, two threads, each device in its order
TEST(PoolTest, TenThousandDevicesShareTwoThreads) {
  const LiveThreads before;
  Scheduler scheduler = with_workers(2);
  std::vector<TaskDevice> devices;
  for (int k = 0; k < 10'000; ++k)
    devices.push_back(open(scheduler, Mode::pooled, "d" + std::to_string(k), 8));
  EXPECT_LE(before.added(), 2);
  std::vector<std::vector<int>> seen(devices.size());
  for (int round = 0; round < 3; ++round) {
    for (std::size_t k = 0; k < devices.size(); ++k)
      devices[k].submit("round", [&seen, k, round] { seen[k].push_back(round); });
  }
  for (const TaskDevice& device : devices) ASSERT_TRUE(device.await().ok());
  for (const auto& rounds : seen) ASSERT_THAT(rounds, ElementsAre(0, 1, 2));
}

// S16: what a task waits for runs on the one thread that there is
TEST(PoolTest, WaitingTasksCostNoThread) {
  Scheduler scheduler = with_workers(1);
  const TaskDevice last = open(scheduler, Mode::pooled, "last");
  std::vector<TaskDevice> chain;
  for (int k = 0; k < 100; ++k) chain.push_back(open(scheduler, Mode::pooled, "c"));
  ExternalTimeline gate("gate");
  const Event opened = gate.next();
  std::atomic<int> ran{0};
  Event before = opened;
  std::vector<Event> events;
  for (const TaskDevice& device : chain) {
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
  const TaskDevice small = open(scheduler, Mode::pooled, "small", 2);
  const TaskDevice other = open(scheduler, Mode::pooled, "other");
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
  const TaskDevice a = open(scheduler, Mode::pooled, "a", 1),
                   b = open(scheduler, Mode::pooled, "b", 1);
  ExternalTimeline gate("gate");
  const Event opened = gate.next();
  std::atomic<int> refused{0};
  const auto cross = [&](const TaskDevice& other) {
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
  const TaskDevice waits = open(scheduler, Mode::pooled, "waits");
  const TaskDevice runs = open(scheduler, Mode::pooled, "runs");
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

// S12: a cancel wakes a suspended timed wait
TEST(PoolTest, CancelEndsATimedWait) {
  Scheduler scheduler = with_workers(1);
  const TaskDevice device = open(scheduler, Mode::pooled, "waits");
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
  const TaskDevice busy = open(scheduler, Mode::pooled, "busy");
  const TaskDevice other = open(scheduler, Mode::pooled, "other");
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
  const LiveThreads before;
  for (const bool inside : {false, true}) {
    for (int round = 0; round < 25; ++round) {
      auto scheduler = std::make_unique<Scheduler>(with_workers(2));
      auto device = std::make_shared<TaskDevice>(open(*scheduler, Mode::pooled, "work"));
      EXPECT_TRUE(device->submit("first", [] {}).accepted());
      scheduler.reset();
      if (inside) {
        TaskDevice* const raw = device.get();
        sched::ExternalTimeline returned("submit returned");  // the handle is used until then
        const Event may_drop = returned.next();
        sched::SubmitOptions options;
        options.after.push_back(may_drop);
        raw->submit("drops", [device = std::move(device)]() mutable { device.reset(); }, options);
        EXPECT_TRUE(returned.signal(may_drop.ticket()).ok());
      } else {
        device.reset();
        ASSERT_EQ(before.added(), 0);
      }
    }
  }
  EXPECT_TRUE(before.others_end());  // workers that were inside end by themselves
}

// S19
TEST(PoolTest, WorkersMayBePinned) {
  const std::vector<unsigned> allowed = sched::allowed_processors();
  SchedulerOptions options;
  options.workers = static_cast<unsigned>(allowed.size()) + 1;
  options.pin_workers = true;
  Scheduler scheduler(options);
  // Each worker holds one task until all have told where they may run.
  std::vector<TaskDevice> devices;
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
  for (const TaskDevice& device : devices) ASSERT_TRUE(device.await().ok());
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
    const TaskDevice device = scheduler.new_device(own);
    std::vector<unsigned> mask;
    EXPECT_TRUE(device.submit("ask", [&] { mask = sched::allowed_processors(); }).wait().ok());
    EXPECT_THAT(mask, ElementsAre(processor));
  }
  own.processor = 100'000;
  for (const Mode mode : {Mode::threaded, Mode::inline_, Mode::pooled, Mode::manual}) {
    own.mode = mode;
    EXPECT_THAT([&] { static_cast<void>(scheduler.new_device(own)); },
                testing::ThrowsMessage<Error>(HasSubstr("may not use processor 100000")));
  }
}

// S15, bad input: numbers of workers that no machine has are told before any is started
TEST(PoolTest, WorkersHaveTheirBounds) {
  for (const unsigned workers : {0u, sched::workers_max + 1, 4'000'000'000u}) {
    EXPECT_THAT([&] { with_workers(workers); },
                testing::ThrowsMessage<Error>(
                    HasSubstr("workers is " + std::to_string(workers) + " (expected 1 to 4096 ")));
  }
}

// S14, S15: where memory ends while workers start, those that did are not left over
TEST(PoolTest, WorkersEndWhereOthersHaveNoMemory) {
  const LiveThreads before;
  set_log_level(LogLevel::error);
  for (std::uint64_t granted = 0; granted < 100; ++granted) {
    Scheduler scheduler = with_workers(3);
    sched::DeviceOptions options;
    options.mode = Mode::pooled;
    std::optional<TaskDevice> device;
    {
      const NoMemory none(granted);
      try {
        device = scheduler.new_device(std::move(options));
      } catch (const Error&) {
      } catch (const std::bad_alloc&) {
      }
    }
    if (device) {
      EXPECT_TRUE(device->submit("task", [] {}).wait().ok());
    }
  }
  set_log_level(LogLevel::warn);
  EXPECT_TRUE(before.others_end());
}

}  // namespace
}  // namespace heddle
