// What submitting and idling may cost, and what one stopped thread may hold up.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <pthread.h>
#include <time.h>

#include <array>
#include <latch>
#include <thread>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::TaskDevice;
using testing::StrEq;

class CostTest : public DeviceTest {};
HEDDLE_DEVICE_SUITE(CostTest);

// S3: callables of 48 bytes are kept in the queue; larger ones cost an allocation
TEST_P(CostTest, SubmittingSmallCallablesAllocatesNothing) {
  const TaskDevice device = open("work", 2048);
  std::array<std::uint64_t*, 6> words{};  // 48 bytes
  static_assert(sizeof(words) == sched::task_bytes_max);
  std::uint64_t ran = 0;
  words[0] = &ran;
  const auto small = [words] { ++*words[0]; };
  const auto large = [words, more = words] { *words[0] += more[1] == nullptr; };
  device.submit("first", small).wait();
  const std::uint64_t before = allocations();
  for (int k = 0; k < 1000; ++k) device.submit("small", small);
  EXPECT_EQ(allocations(), before);
  device.submit("large", large);
  EXPECT_GT(allocations(), before);
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(ran, 1002u);
}

// S5: a worker that has parked stands still, and the next task wakes it
TEST(IdleTest, ParkedWorkerUsesNoProcessor) {
  Scheduler scheduler;
  sched::DeviceOptions options;
  options.spin = 0ns;
  const TaskDevice device = scheduler.new_device(options);
  clockid_t clock{};
  EXPECT_TRUE(
      device.submit("clock", [&] { pthread_getcpuclockid(pthread_self(), &clock); }).wait().ok());
  while (device.counters().parks == 0) std::this_thread::yield();
  const auto used = [clock] {
    timespec now{};
    EXPECT_EQ(::clock_gettime(clock, &now), 0);
    return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
  };
  const auto before = used();
  sched::ExternalTimeline never("never");
  EXPECT_EQ(never.next().wait_for(200ms).code(), ErrorCode::deadline);  // time passes
  EXPECT_LT(used() - before, 20ms);
  EXPECT_TRUE(device.submit("wake", [] {}).wait().ok());
}

// S5: how long a worker looks for work before it parks is the machine's, where no device says
TEST(IdleTest, SpinsAsLongAsTheProfileSays) {
  SchedulerOptions options;
  options.profile.spin = 1h;
  Scheduler scheduler(options);
  const TaskDevice device = scheduler.new_device("work");
  EXPECT_TRUE(device.submit("first", [] {}).wait().ok());
  sched::ExternalTimeline never("never");
  EXPECT_EQ(never.next().wait_for(20ms).code(), ErrorCode::deadline);  // time passes
  EXPECT_TRUE(device.submit("second", [] {}).wait().ok());
  EXPECT_EQ(device.counters().parks, 0u);
}

// S3: a profile that does not fit costs time, and nothing else
TEST(IdleTest, RunsAllWithAnyProfile) {
  SchedulerOptions options;
  for (const std::uint32_t some : {0U, 1U, 4096U}) {
    options.profile = {.slots_ahead = some,
                       .row_min = some % 2,
                       .close_behind = some,
                       .start_tasks = some,
                       .start_pauses = some,
                       .spin = 0ns};
    Scheduler scheduler(options);
    const TaskDevice device = scheduler.new_device("work");
    std::uint64_t ran = 0;
    for (int k = 0; k < 1000; ++k) device.submit("count", [&ran] { ++ran; });
    EXPECT_TRUE(device.await().ok());
    EXPECT_EQ(ran, 1000u);
  }
}

// S15, S19: a thread of its own, named after the device
TEST(IdleTest, ThreadedDevicesHaveANamedThread) {
  Scheduler scheduler;
  const TaskDevice device = scheduler.new_device("camera");
  std::array<char, 16> name{};
  std::thread::id where;
  device
      .submit("look",
              [&] {
                pthread_getname_np(pthread_self(), name.data(), name.size());
                where = std::this_thread::get_id();
              })
      .wait();
  EXPECT_THAT(name.data(), StrEq("camera"));
  EXPECT_NE(where, std::this_thread::get_id());
}

// S6, O13, O15: whoever awaits is woken by a failure, by a shutdown and by a recovery
TEST_P(CostTest, NoWaiterIsLeftBehind) {
  enum class Way { failure, shutdown, recovery };
  for (const Way way : {Way::failure, Way::shutdown, Way::recovery}) {
    const TaskDevice device = open("work");
    sched::ExternalTimeline gate("gate");
    const Event opened = gate.next();
    device.wait(opened);
    const Event last = device.submit("last", [] {});
    std::latch waiting(4);
    std::vector<std::thread> hosts;
    for (int k = 0; k < 4; ++k) {
      hosts.emplace_back([&, k] {
        waiting.count_down();
        if (k % 2 == 0) {
          EXPECT_FALSE(last.wait().ok());
        } else if (!device.await().ok()) {
          return;
        } else {
          // Cancelled tasks do not fail their device, and a recovery may come before the call.
          EXPECT_NE(way, Way::failure);
        }
      });
    }
    waiting.wait();
    EXPECT_FALSE(device.is_idle());
    if (way == Way::shutdown) {
      EXPECT_TRUE(device.shutdown(1ms).ok());
    } else {
      EXPECT_TRUE(gate.signal(opened.ticket(), Status(ErrorCode::unavailable, "no disk")).ok());
      if (way == Way::recovery) {
        EXPECT_FALSE(last.wait().ok());
        EXPECT_TRUE(device.recover().ok());
      }
    }
    for (auto& host : hosts) host.join();
    EXPECT_TRUE(device.is_idle());
  }
}

/// Stops its submitter while it is moved into the queue: between ticket and publication.
class StopsWhileQueued {
 public:
  StopsWhileQueued(std::latch& stopped, std::latch& go) : stopped_(&stopped), go_(&go) {}
  StopsWhileQueued(StopsWhileQueued&& other) noexcept : stopped_(other.stopped_), go_(other.go_) {
    stopped_->count_down();
    go_->wait();
  }
  void operator()() const {}

 private:
  std::latch* stopped_;
  std::latch* go_;
};

// S22: a producer that stops between ticket and publication delays that device only, and on it
// only what came later
TEST_P(CostTest, StoppedProducerDelaysItsDeviceOnly) {
  const TaskDevice held = open("held");
  const TaskDevice other = open("other");
  std::latch stopped(1), go(1);
  std::thread producer(
      [&] { EXPECT_TRUE(held.submit("slow", StopsWhileQueued(stopped, go)).wait().ok()); });
  stopped.wait();
  const Event behind = held.submit("behind", [] {});
  EXPECT_TRUE(behind.accepted());
  EXPECT_EQ(behind.ticket(), 2u);
  EXPECT_TRUE(other.submit("free", [] {}).wait().ok());
  EXPECT_FALSE(behind.done());
  go.count_down();
  EXPECT_TRUE(behind.wait().ok());
  producer.join();
}

}  // namespace
}  // namespace heddle
