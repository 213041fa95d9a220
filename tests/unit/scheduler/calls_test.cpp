// What the hot path asks of the system, counted.
#include <gtest/gtest.h>

#include <latch>
#include <mutex>
#include <ostream>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/call_counter.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

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

/// Modes that keep S3, with one worker, which sleeps as soon as it has nothing to do.
class SubmitTest : public testing::TestWithParam<sched::Mode> {
 protected:
  static SchedulerOptions one_worker() {
    SchedulerOptions options;
    options.workers = 1;
    options.device.mode = GetParam();
    options.device.queue_size = 2048;
    options.device.spin = 0ns;
    return options;
  }
  /// `count` devices, of which the first runs a task, and so has the worker, until let_go().
  void open_held(int count) {
    for (int k = 0; k < count; ++k)
      devices_.push_back(scheduler_.new_device("d" + std::to_string(k)));
    devices_.front().submit("holds the worker", [this] {
      begun_.count_down();
      go_on_.wait();
    });
    begun_.wait();
  }
  void let_go() {
    go_on_.count_down();
    for (const sched::TaskDevice& device : devices_) EXPECT_TRUE(device.await().ok());
  }

  Scheduler scheduler_{one_worker()};
  std::vector<sched::TaskDevice> devices_;

 private:
  std::latch begun_{1}, go_on_{1};
};
INSTANTIATE_TEST_SUITE_P(Modes, SubmitTest,
                         testing::Values(sched::Mode::threaded, sched::Mode::pooled),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

struct Asked {
  std::uint64_t locks = locks_taken(), calls = system_calls(), memory = allocations();
  friend bool operator==(const Asked&, const Asked&) = default;
};
std::ostream& operator<<(std::ostream& out, const Asked& asked) {
  return out << asked.locks << " locks, " << asked.calls << " system calls, " << asked.memory
             << " allocations";
}

// S3: submitting takes no lock, no memory, and makes no system call while nobody sleeps
TEST_P(SubmitTest, AsksTheSystemForNothing) {
  open_held(1);
  const Asked before;
  for (int k = 0; k < 1000; ++k) devices_.front().submit("task", [] {});
  EXPECT_EQ(Asked(), before);
  let_go();
}

// S3: nor does it where each submission makes another device ready, from a thread that has never
// submitted, for more devices than any queue has room for from the start
TEST_P(SubmitTest, AsksForNothingToMakeDevicesReady) {
  // With a thread of its own each device but the first is asleep: its wake is a system call.
  const bool threads = GetParam() == sched::Mode::threaded;
  open_held(threads ? 50 : 2000);
  if (threads) {
    for (const sched::TaskDevice& device : devices_)
      while (device.counters().parks == 0 && &device != &devices_.front())
        std::this_thread::sleep_for(1ms);
    std::this_thread::sleep_for(20ms);
  }
  std::thread([&] {
    // A thread has a number from its first submission on, and a queue one submitter.
    static_cast<void>(sched::ExternalTimeline("other").next());
    Asked expected;
    for (const sched::TaskDevice& device : devices_) {
      if (&device != &devices_.front()) device.submit("task", [] {});
    }
    if (threads) expected.calls += devices_.size() - 1;
    EXPECT_EQ(Asked(), expected);
  }).join();
  let_go();
}

// S9, S12: what a failure and a cancel make tasks be looked at for ends with them: a task costs
// what it did before
TEST(CallsTest, NothingRemainsOfFailuresAndCancels) {
  Scheduler scheduler;
  sched::DeviceOptions options;
  options.mode = sched::Mode::inline_;
  const sched::TaskDevice device = scheduler.new_device(options);
  const auto locks_of_a_task = [&] {
    for (int k = 0; k < 2; ++k) device.submit("is looked at", [] {});
    const std::uint64_t before = locks_taken();
    device.submit("task", [] {});
    return locks_taken() - before;
  };
  const std::uint64_t usual = locks_of_a_task();
  device.cancel_pending();
  EXPECT_EQ(locks_of_a_task(), usual);
  EXPECT_FALSE(device.submit("bad", [] { throw 1; }).wait().ok());
  EXPECT_TRUE(device.recover().ok());
  EXPECT_EQ(locks_of_a_task(), usual);
}

// S3: the one system call is that which wakes a sleeper
TEST_P(SubmitTest, CallsTheSystemOnceToWakeASleeper) {
  open_held(3);
  let_go();
  for (const sched::TaskDevice& device : devices_) {
    std::this_thread::sleep_for(50ms);  // the worker sleeps
    const Asked before;
    const Event event = device.submit("wakes", [] {});
    Asked expected = before;
    ++expected.calls;
    EXPECT_EQ(Asked(), expected);
    EXPECT_TRUE(event.wait().ok());
  }
}

}  // namespace
}  // namespace heddle
