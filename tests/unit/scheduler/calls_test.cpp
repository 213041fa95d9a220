// What the hot path asks of the system, counted.
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/call_counter.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;

TEST(CallsTest, AreCounted) {
  const std::uint64_t locks = locks_taken();
  std::mutex mutex;
  mutex.lock();
  mutex.unlock();
  EXPECT_EQ(locks_taken(), locks + 1);
}

// S3: submitting takes no lock, and makes a system call only to wake a parked worker
TEST(CallsTest, SubmittingTakesNoLockAndCallsTheSystemOnlyToWake) {
  Scheduler scheduler;
  sched::DeviceOptions options;
  options.name = "work";
  options.capacity = 2048;
  options.spin = 0ns;
  const sched::Device device = scheduler.new_device(options);
  std::atomic<bool> begun{false}, go_on{false};
  device.submit("holds the worker", [&] {
    begun.store(true);
    while (!go_on.load()) {
    }
  });
  while (!begun.load()) {
  }
  const std::uint64_t locks = locks_taken(), calls = system_calls();
  for (int k = 0; k < 1000; ++k) device.submit("task", [] {});
  EXPECT_EQ(locks_taken(), locks);
  EXPECT_EQ(system_calls(), calls);
  go_on.store(true);
  EXPECT_TRUE(device.await().ok());

  // An idle worker parks, and soon after the count sleeps.
  const std::uint64_t parks = device.counters().parks;
  device.submit("once more", [] {}).wait();
  while (device.counters().parks == parks) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(20ms);
  const std::uint64_t locks_idle = locks_taken(), calls_idle = system_calls();
  const Event event = device.submit("wakes", [] {});
  EXPECT_EQ(locks_taken(), locks_idle);
  EXPECT_EQ(system_calls(), calls_idle + 1);
  EXPECT_TRUE(event.wait().ok());
}

}  // namespace
}  // namespace heddle
