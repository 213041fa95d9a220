// Scheduling a routine again and again: what it costs in memory, and that each launch lies wholly
// before or after what takes something away from it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/heddle.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "scheduler/atomic.hpp"
#include "scheduler/sanitizers.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/forked.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/runtime/launch_cost.hpp"

namespace heddle {
namespace {

/// A routine of three tensors and two static indices that counts its launches.
class Counting {
 public:
  explicit Counting(const Backend& backend)
      : device(backend.physical_device(0).new_virtual_device()), buffer(count_buffer()) {
    Program p("count");
    p << (count(r) = count(r) + a(r) * b(c)) << (count(r) = count(r) + 1);
    routine.emplace(
        Context(device).with(count, BufferView(buffer, count.type())).link(backend.compile(p)));
    device.await();
  }
  [[nodiscard]] Event schedule(const ScheduleOptions& options = {}) const {
    return routine->schedule(bindings, options);
  }

  const Device device;
  const Tensor count{"count", f32, {2}}, a{"a", f32, {2}}, b{"b", f32, {2}};
  const StaticIndex r{"r"}, c{"c"};
  const Bindings bindings{{r, 1}, {c, 0}};
  const Buffer buffer;
  std::optional<Routine> routine;

 private:
  [[nodiscard]] Buffer count_buffer() const { return Buffer::allocate(device, count.type()); }
};

class LaunchTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Backends, LaunchTest, testing::Values("null", "pooled_cc", "sync_cc"));

// D16: launches lie in the queue itself: neither the thread that schedules nor the worker takes
// memory, nor where they are contained, nor for threads that share the device
TEST_P(LaunchTest, SchedulingAllocatesNothing) {
  const Backend backend = Backend::open(GetParam());
  const Counting counting(backend);
  const auto row = [&](const ScheduleOptions& options = {}) {
    return cost_of(counting.device, [&] {
      for (int k = 0; k < 500; ++k) static_cast<void>(counting.schedule(options));
    });
  };
  static_cast<void>(row());  // what is kept from the first time on
  EXPECT_THAT(row(), testing::Each(0));
  EXPECT_THAT(cost_of(counting.device,
                      [&] { counting.routine->schedule({{counting.r, 1}, {counting.c, 0}}); }),
              testing::Each(0));
  ScheduleOptions contained;
  contained.contain = true;
  EXPECT_THAT(row(contained), testing::Each(0));
  std::thread([&] {
    static_cast<void>(row());
    EXPECT_THAT(row(), testing::Each(0));
  }).join();
  EXPECT_THAT(row(), testing::Each(0));
  EXPECT_EQ(counting.device.statistics().launches, 3001u);
}

// D16: nor where one that is looked at closely follows another that has not ended
TEST_P(LaunchTest, SchedulingBehindOthersAllocatesNothing) {
  const Backend backend = Backend::open(GetParam());
  const Counting counting(backend);
  ScheduleOptions contained;
  contained.contain = true;
  EXPECT_TRUE(counting.schedule(contained).wait().ok());
  sched::ExternalTimeline gate("gate");
  counting.device.wait(gate.next());
  const std::uint64_t before = allocations();
  for (int k = 0; k < 3; ++k) static_cast<void>(counting.schedule(contained));
  EXPECT_EQ(allocations(), before);
  EXPECT_TRUE(gate.signal(1).ok());
  counting.device.await();
}

// D17: each launch is before a donation, and what the new owner finds has it, or is refused,
// whoever donates and however the launches were scheduled so far
TEST(LaunchRaceTest, LaunchesAreBeforeADonationOrAfterIt) {
  const Backend backend = Backend::open("cc");
  for (int round = 0; round < 30; ++round) {
    const Counting counting(backend);
    const Device other = backend.physical_device(0).new_virtual_device();
    std::atomic<int> accepted = 0;
    std::thread scheduler([&] {
      const Status refused = failure([&] {
        while (true) {
          static_cast<void>(counting.schedule());
          ++accepted;
        }
      });
      EXPECT_EQ(refused.code(), ErrorCode::failed_precondition) << refused.to_string();
    });
    while (accepted < round * 10) std::this_thread::yield();
    std::vector<float> values(2);
    EXPECT_TRUE(BufferView(counting.buffer.donate(), counting.count.type())
                    .to_host(other, std::as_writable_bytes(std::span(values)))
                    .wait()
                    .ok());
    scheduler.join();
    EXPECT_EQ(values[1], static_cast<float>(accepted));
  }
}

// D13: after finalize() of its context no launch is accepted; those that were run
TEST(LaunchRaceTest, LaunchesAreBeforeAFinalisationOrAfterIt) {
  const Backend backend = Backend::open("null");
  for (int round = 0; round < 30; ++round) {
    const Counting counting(backend);
    std::atomic<int> accepted = 0;
    std::thread scheduler([&] {
      EXPECT_EQ(failure([&] {
                  while (true) {
                    static_cast<void>(counting.schedule());
                    ++accepted;
                  }
                }).code(),
                ErrorCode::failed_precondition);
    });
    while (accepted < round * 10) std::this_thread::yield();
    counting.routine->context().finalize();
    const Event last = counting.device.record();
    scheduler.join();
    EXPECT_TRUE(last.wait().ok());
    EXPECT_EQ(counting.device.statistics().launches, static_cast<std::uint64_t>(accepted));
  }
}

// D16: threads that schedule on one device, from the first one alone to several, lose no launch
TEST(LaunchRaceTest, ThreadsShareADevice) {
  constexpr int threads = 3, launches = 2000;
  const Backend backend = Backend::open("cc");
  const Counting counting(backend);
  std::barrier start(threads);
  const auto work = [&](int number) {
    for (int k = 0; k < 100 * number; ++k) std::this_thread::yield();
    start.arrive_and_wait();
    for (int k = 0; k < launches; ++k) static_cast<void>(counting.schedule());
  };
  for (int k = 0; k < launches; ++k) static_cast<void>(counting.schedule());
  std::vector<std::thread> running;
  for (int k = 0; k < threads; ++k) running.emplace_back(work, k);
  for (std::thread& thread : running) thread.join();
  EXPECT_EQ(counting.routine->context().read<float>(counting.count)[1],
            static_cast<float>((threads + 1) * launches));
}

/// On a device that runs nothing until somebody waits for it.
Backend open_idle() {
  BackendOptions options;
  options.name = "null";
  options.mode = sched::Mode::manual;
  return Backend::open(options);
}

// D2: memory that is given away while a launch of its owner is queued goes once that has ended,
// where its new owner and the routine went before
TEST(LaunchMemoryTest, IsFreeAfterItsLastUser) {
  const Backend backend = open_idle();
  Counting counting(backend);
  for (int round = 0; round < 2; ++round) {  // the second one is scheduled without a lock
    EXPECT_TRUE(counting.schedule().wait().ok());
  }
  static_cast<void>(counting.schedule());
  static_cast<void>(counting.buffer.donate());
  counting.routine.reset();
  EXPECT_EQ(counting.device.statistics().bytes_in_use, 0u);
  counting.device.trim();
  EXPECT_GT(counting.device.statistics().bytes_cached, 0u) << "the launch is queued";
  counting.device.await();
  EXPECT_EQ(counting.device.statistics().bytes_cached, 0u);
}

// D2: wherever memory ends in a donation, launches that are queued keep what they use
TEST(LaunchMemoryTest, IsKeptWhereDonationsGetNone) {
  const Backend backend = open_idle();
  int given = 0;
  for (std::uint64_t granted = 0; granted < 12; ++granted) {
    Counting counting(backend);
    static_cast<void>(counting.schedule());
    bool gave = false;
    try {
      const NoMemory none(granted);
      static_cast<void>(counting.buffer.donate());
      gave = true;
    } catch (const std::bad_alloc&) {
      EXPECT_TRUE(counting.buffer.live());
    }
    counting.routine.reset();
    counting.device.trim();
    const DeviceStatistics queued = counting.device.statistics();
    EXPECT_EQ(queued.bytes_in_use, gave ? 0u : 8u) << granted << " granted";
    EXPECT_EQ(queued.bytes_cached, gave ? 192u : 128u) << granted << " granted";
    counting.device.await();
    EXPECT_EQ(counting.device.statistics().bytes_cached, 0u) << granted << " granted";
    given += gave ? 1 : 0;
  }
  EXPECT_GT(given, 0);
}

// D16, D2: a worker that frees memory which was given away meanwhile leaves the one thread that
// schedules alone: it locks nothing from then on either
TEST(LaunchMemoryTest, WorkersThatFreeItTakeNoLock) {
  const Backend backend = Backend::open("cc");
  Counting counting(backend);
  rt::Ledger& ledger = *Inside::of(counting.device)->execution->ledger;
  const auto schedules_alone = [&] {
    const bool alone = ledger.try_lock_alone();
    if (alone) ledger.unlock();
    return alone;
  };
  for (int k = 0; k < 2; ++k) EXPECT_TRUE(counting.schedule().wait().ok());
  if (!sched::StdEnv::asymmetric()) GTEST_SKIP() << "this machine has no asymmetric barriers";
  EXPECT_TRUE(schedules_alone());
  sched::ExternalTimeline gate("gate");
  counting.device.wait(gate.next());
  static_cast<void>(counting.schedule());
  static_cast<void>(counting.buffer.donate());
  counting.routine.reset();
  counting.device.trim();
  EXPECT_GT(counting.device.statistics().bytes_cached, 0u);
  EXPECT_TRUE(gate.signal(1).ok());
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (counting.device.statistics().bytes_cached > 0 && std::chrono::steady_clock::now() < end)
    std::this_thread::yield();
  EXPECT_EQ(counting.device.statistics().bytes_cached, 0u);
  EXPECT_TRUE(schedules_alone());
}

// S14: a child that was forked while another thread scheduled may ask and drop what it inherited
TEST(LaunchForkTest, ChildrenDoNotWaitForThreadsThatTheyLack) {
  const Backend backend = Backend::open("null");
  const Device first = backend.physical_device(0).new_virtual_device();  // from here forks count
  for (const bool alone : {true, false}) {
    rt::Ledger ledger;
    std::barrier inside(2), forked(2);
    std::thread other([&] {
      ledger.lock();
      ledger.claim();
      if (alone) {
        ledger.unlock();
        ledger.lock();
      }
      inside.arrive_and_wait();
      forked.arrive_and_wait();
      ledger.unlock();
    });
    inside.arrive_and_wait();
    EXPECT_TRUE(in_forked_child([&] {
      for (int k = 0; k < 2; ++k) {
        const std::lock_guard lock(ledger);
        if (!ledger.is_torn()) return false;
      }
      return ledger.is_torn();
    }));
    forked.arrive_and_wait();
    other.join();
    EXPECT_TRUE(in_forked_child([&] {
      const std::lock_guard lock(ledger);
      return !ledger.is_torn();
    }));
  }
}

#ifndef HEDDLE_TSAN  // whose own locks other threads may hold as their process is forked
// S14, D17: nor does a child that gives inherited memory away while tasks use it
TEST(LaunchForkTest, ChildrenMayDonate) {
  const Backend backend = Backend::open("null");
  const Counting counting(backend);
  EXPECT_TRUE(counting.schedule().wait().ok());
  sched::ExternalTimeline gate("gate");
  counting.device.wait(gate.next());
  const Event queued = counting.schedule();
  std::atomic<bool> over{false};
  std::thread waits([&] {  // again and again, by a lock
    while (!over) static_cast<void>(queued.wait_for(std::chrono::nanoseconds(500)));
  });
  for (int k = 0; k < static_cast<int>(300 / test::slower) && !testing::Test::HasFailure(); ++k) {
    EXPECT_TRUE(in_forked_child([&] { return counting.buffer.donate().live(); })) << "fork " << k;
  }
  over = true;
  waits.join();
  EXPECT_TRUE(gate.signal(1).ok());
}
#endif

// D16: what a trace hook has captured goes with its launch, though the launch's memory is kept
TEST(LaunchMemoryTest, HooksGoWithTheirLaunch) {
  const Backend backend = Backend::open("cc");
  const Device device = backend.physical_device(0).new_virtual_device();
  const Tensor t("t", f32, {2});
  const Index i;
  Program fill("fill");
  fill << (t(i) = Expr(1.0));
  const Routine routine = Context(device).link(backend.compile(fill, {.trace_values = true}));
  auto captured = std::make_shared<int>(1);
  const std::weak_ptr<int> kept = captured;
  ScheduleOptions traced;
  traced.trace = [captured = std::move(captured)](const TracedValue&) {};
  EXPECT_TRUE(routine.schedule({}, std::exchange(traced, {})).wait().ok());
  device.await();
  EXPECT_TRUE(kept.expired());
}

}  // namespace
}  // namespace heddle
