// Forked children: what they inherited asks and does nothing there, and may go. But for TSan, whose
// own locks workers may hold as their process is forked.
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <memory>
#include <optional>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::TaskDevice;

class ForkTest : public DeviceTest {};
HEDDLE_DEVICE_SUITE(ForkTest);

// S14
TEST_P(ForkTest, ChildGetsUnavailable) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  const Event pending = gate.next();
  device.wait(pending);
  const pid_t child = ::fork();
  if (child == 0) {
    const Event refused = device.submit("child", [] {});
    const bool good =
        refused.status().code() == ErrorCode::unavailable &&
        text(refused.status()).find("forked") != std::string::npos &&
        device.submit_parallel("parts", 9, [](std::size_t, std::size_t) {}).status().code() ==
            ErrorCode::unavailable &&
        scheduler_.submit_any("any", [] {}).status().code() == ErrorCode::unavailable &&
        device.await().code() == ErrorCode::unavailable &&
        pending.wait().code() == ErrorCode::unavailable &&
        pending.wait_for(1h).code() == ErrorCode::unavailable;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(gate.signal(pending.ticket()).ok());
  EXPECT_TRUE(device.await().ok());
}

// S14: what a forked child inherited runs nothing there, whoever signals, and nobody is left
// waiting
TEST_P(ForkTest, ChildRunsNothingThatItInherited) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  const Event pending = gate.next();
  device.wait(pending);
  int runs = 0;
  const Event task = device.submit("inherited", [&] { ++runs; });
  const pid_t child = ::fork();
  if (child == 0) {
    ErrorCode told = ErrorCode::ok, thrown = ErrorCode::ok;
    pending.then([&](const Status& status) { told = status.code(); });
    try {
      static_cast<void>(task.fd());
    } catch (const Error& e) {
      thrown = e.code();
    }
    sched::SubmitOptions after;
    after.after = {pending};
    sched::DeviceOptions without_threads;
    without_threads.mode = sched::Mode::inline_;
    const Event mine = Scheduler().new_device(without_threads).submit("behind", [] {}, after);
    const bool good = gate.signal(pending.ticket()).code() == ErrorCode::unavailable &&
                      gate.next().status().code() == ErrorCode::unavailable &&
                      told == ErrorCode::unavailable && thrown == ErrorCode::unavailable &&
                      mine.status().code() == ErrorCode::unavailable && runs == 0;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_TRUE(gate.signal(pending.ticket()).ok());
  EXPECT_TRUE(task.wait().ok());
  EXPECT_EQ(runs, 1);
}

// S14: a forked child may ask and destroy whatever it inherited, threads and all
TEST_P(ForkTest, ChildMayAskAndDestroy) {
  std::optional<TaskDevice> device = open("work");
  sched::ExternalTimeline gate("gate");
  device->submit("bad", [] { throw 1; });
  const Event skipped = device->submit("skipped", [] {});
  device->await();
  const pid_t child = ::fork();
  if (child == 0) {
    device->cancel_pending();
    const bool good = device->status().code() == ErrorCode::unavailable &&
                      device->snapshot().status.code() == ErrorCode::unavailable &&
                      device->shutdown(1s).code() == ErrorCode::unavailable &&
                      device->recover().code() == ErrorCode::unavailable && !skipped.wait().ok();
    device.reset();
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

// S14: the scheduler that a child inherits opens nothing, runs nothing, and may be dropped
TEST_P(ForkTest, ChildMayDropItsScheduler) {
  auto scheduler = std::make_unique<Scheduler>();
  std::optional<TaskDevice> device = scheduler->new_device(options("work"));
  EXPECT_TRUE(device->submit("task", [] {}).wait().ok());
  sched::ExternalTimeline gate("gate");
  device->wait(gate.next());
  device->submit("queued", [] { ADD_FAILURE() << "ran in the child"; });
  const pid_t child = ::fork();
  if (child == 0) {
    bool refused = false;
    try {
      static_cast<void>(scheduler->new_device(options("another")));
    } catch (const Error& e) {
      refused = e.code() == ErrorCode::unavailable;
    }
    const bool good = refused && !scheduler->poll() && !scheduler->run_one() &&
                      scheduler->shutdown(1s).code() == ErrorCode::unavailable &&
                      scheduler->snapshot().empty();
    device.reset();
    scheduler.reset();
    Scheduler fresh;
    const bool works = fresh.new_device("own").submit("task", [] {}).wait().ok();
    ::_exit(good && works ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  device->cancel_pending();
  run_ready();
}

}  // namespace
}  // namespace heddle
