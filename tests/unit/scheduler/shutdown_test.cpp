// What is left of a device whose shutdown gave up waiting for a task: its handles go at once, and
// what the task uses lives until it has ended (S13).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/support/logged.hpp"
#include "tests/support/threads.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::TaskDevice;
using testing::HasSubstr;

/// The modes with threads, which tasks can hold up.
class LeftTaskTest : public DeviceTest {
 protected:
  static constexpr const char* ended = "has ended";
  const test::Logged log;
};
INSTANTIATE_TEST_SUITE_P(Modes, LeftTaskTest,
                         testing::Values(sched::Mode::threaded, sched::Mode::pooled),
                         [](const auto& mode) { return std::string(mode_name(mode.param)); });

/// Runs until it is released, deaf to its stop token. What it shares says whether it still lives.
class Stubborn {
 public:
  void operator()() const {
    state_->begun.count_down();
    while (!state_->released.load()) std::this_thread::sleep_for(1ms);
  }
  /// Waits for the copy of this that was submitted.
  void wait_until_begun() const { state_->begun.wait(); }
  void release() const { state_->released.store(true); }
  [[nodiscard]] long copies() const { return state_.use_count(); }

 private:
  struct State {
    std::latch begun{1};
    std::atomic<bool> released{false};
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

/// A device on which the task runs.
TaskDevice held_up(Scheduler& scheduler, sched::DeviceOptions options, const Stubborn& task) {
  TaskDevice device = scheduler.new_device(std::move(options));
  device.submit("stubborn", Stubborn(task));
  task.wait_until_begun();
  return device;
}

template <class Action>
std::chrono::nanoseconds time_of(const Action& action) {
  const auto start = std::chrono::steady_clock::now();
  action();
  return std::chrono::steady_clock::now() - start;
}

// S13: destructors do not wait again for a task that a shutdown left; it is told once when it ends
TEST_P(LeftTaskTest, HandlesGoAtOnceAndItsEndIsToldOnce) {
  const LiveThreads threads;
  std::optional<Scheduler> scheduler(std::in_place);
  std::optional<TaskDevice> device = scheduler->new_device(options("work"));
  std::optional<TaskDevice> idle = scheduler->new_device(options("idle"));
  const Stubborn task;
  const Event event = device->submit("stubborn", Stubborn(task));
  const Event queued = device->submit("queued", [] {});
  task.wait_until_begun();
  EXPECT_TRUE(idle->submit("quick", [] {}).wait().ok());
  const Status status = device->shutdown(30ms);
  EXPECT_EQ(status.code(), ErrorCode::deadline);
  EXPECT_THAT(text(status), HasSubstr("'stubborn'"));
  EXPECT_LT(time_of([&] {
              device.reset();
              idle.reset();
              scheduler.reset();
            }),
            10s);  // drain_max is a minute
  EXPECT_FALSE(event.done());
  EXPECT_EQ(log.count(ended), 0);
  EXPECT_EQ(task.copies(), 2);  // the task has what it uses
  task.release();
  EXPECT_TRUE(event.wait().ok());
  EXPECT_EQ(queued.wait().code(), ErrorCode::cancelled);
  EXPECT_TRUE(threads.others_end());
  EXPECT_EQ(task.copies(), 1);
  EXPECT_EQ(log.count(ended), 1);
  EXPECT_EQ(log.count("'stubborn'"), 1);
}

// S13: the same when the scheduler was shut down, with tasks left on several devices
TEST_P(LeftTaskTest, SchedulersMayBeShutDownAndGo) {
  const LiveThreads threads;
  std::vector<Stubborn> tasks(3);
  {
    SchedulerOptions workers;
    workers.workers = 3;
    Scheduler scheduler(workers);
    std::vector<TaskDevice> devices;
    for (const Stubborn& task : tasks) devices.push_back(held_up(scheduler, options("work"), task));
    EXPECT_EQ(scheduler.shutdown(30ms).code(), ErrorCode::deadline);
    const auto start = std::chrono::steady_clock::now();
    devices.clear();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);
  }
  for (const Stubborn& task : tasks) task.release();
  EXPECT_TRUE(threads.others_end());
  EXPECT_EQ(log.count(ended), 3);
}

// S13: all are asked to stop at once, rather than each when the one before was given up, which
// would take 3 seconds
TEST_P(LeftTaskTest, ManyShareOneGrace) {
  constexpr unsigned count = 30;
  const LiveThreads threads;
  const std::vector<Stubborn> tasks(count);
  {
    SchedulerOptions workers;
    workers.workers = count;
    Scheduler scheduler(workers);
    std::vector<TaskDevice> devices;
    for (const Stubborn& task : tasks) devices.push_back(held_up(scheduler, options("work"), task));
    EXPECT_LT(time_of([&] { EXPECT_EQ(scheduler.shutdown(1ms).code(), ErrorCode::deadline); }), 2s);
  }
  for (const Stubborn& task : tasks) task.release();
  EXPECT_TRUE(threads.others_end());  // a thread that logs the ends looks at this test
}

// S13: a second shutdown waits as long as it is told to
TEST_P(LeftTaskTest, MayBeWaitedForAgain) {
  const TaskDevice device = open("work");
  const Stubborn task;
  device.submit("stubborn", Stubborn(task));
  task.wait_until_begun();
  EXPECT_EQ(device.shutdown(1ms).code(), ErrorCode::deadline);
  EXPECT_EQ(device.shutdown(1ms).code(), ErrorCode::deadline);
  std::thread later([&] { task.release(); });
  EXPECT_TRUE(device.shutdown(60s).ok());
  later.join();
}

// S13: the process may end while the task still runs
TEST_P(LeftTaskTest, TheProcessMayEndMeanwhile) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  EXPECT_EXIT(
      {
        ::alarm(20);
        static Scheduler scheduler;
        static const TaskDevice device = scheduler.new_device(options("work"));
        const Stubborn task;
        device.submit("stubborn", Stubborn(task));
        task.wait_until_begun();
        const bool left = device.shutdown(30ms).code() == ErrorCode::deadline;
        std::exit(left ? 0 : 1);  // NOLINT: with the destructors of the two
      },
      testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace heddle
