// Handles that were moved from: they are empty, and say so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::ExternalTimeline;
using sched::TaskDevice;
using testing::HasSubstr;

class HandlesTest : public DeviceTest {};
HEDDLE_DEVICE_SUITE(HandlesTest);

void expect_empty(const Status& status, const char* what) {
  EXPECT_EQ(status.code(), ErrorCode::failed_precondition) << text(status);
  EXPECT_THAT(text(status), HasSubstr(std::string("an empty ") + what + " handle (moved from"));
}

// S13, bad input: every call on a TaskDevice that was moved from
TEST_P(HandlesTest, MovedFromDeviceIsEmpty) {
  TaskDevice device = open("work");
  const TaskDevice other = std::move(device);
  const TaskDevice& empty = device;  // NOLINT: that is the test
  const Event submitted = empty.submit("task", [] { ADD_FAILURE() << "ran"; });
  EXPECT_FALSE(submitted.accepted());
  expect_empty(submitted.wait(), "TaskDevice");
  sched::SubmitOptions contain;
  contain.contain = true;
  expect_empty(
      empty.submit("task", [] { ADD_FAILURE() << "ran"; }, contain).status(), "TaskDevice");
  expect_empty(empty.record().status(), "TaskDevice");
  expect_empty(empty.wait(submitted).status(), "TaskDevice");
  expect_empty(empty.wait(Event()).status(), "TaskDevice");
  expect_empty(empty.await(), "TaskDevice");
  expect_empty(empty.await_for(1ms), "TaskDevice");
  expect_empty(empty.await_until(TaskDevice::Clock::now()), "TaskDevice");
  expect_empty(empty.status(), "TaskDevice");
  expect_empty(empty.recover(), "TaskDevice");
  expect_empty(empty.shutdown(1s), "TaskDevice");
  empty.cancel_pending();
  EXPECT_TRUE(empty.is_idle());
  EXPECT_EQ(empty.name(), "(empty handle)");
  EXPECT_EQ(empty.id(), 0u);
  EXPECT_EQ(empty.counters().submitted, 0u);
  expect_empty(empty.snapshot().status, "TaskDevice");
  EXPECT_THAT(empty.snapshot().to_string(), HasSubstr("(empty handle)"));
  EXPECT_NE(empty, other);
  EXPECT_TRUE(other.submit("task", [] {}).wait().ok());
  device = other;
  EXPECT_TRUE(device.submit("task", [] {}).wait().ok());
}

// S7, bad input: an Event that was moved from is still that event
TEST_P(HandlesTest, MovedFromEventStaysTheSame) {
  const TaskDevice device = open("work");
  Event good = device.submit("good", [] {});
  Event bad = device.submit("bad", [] { throw 1; });
  EXPECT_FALSE(device.await().ok());
  Event refused = device.submit("refused", [] {});
  for (Event* const event : {&good, &bad, &refused}) {
    const Event moved = std::move(*event);
    EXPECT_TRUE(event->done());  // NOLINT: that is the test
    EXPECT_EQ(event->status(), moved.status());
    EXPECT_EQ(event->accepted(), moved.accepted());
    EXPECT_EQ(event->ticket(), moved.ticket());
    EXPECT_EQ(event->to_string(), moved.to_string());
  }
  EXPECT_FALSE(refused.status().ok());
}

// S13, S20, bad input: the handles of timelines and schedulers
TEST(EmptyHandleTest, ExternalTimelinesAndSchedulers) {
  ExternalTimeline timeline("stream");
  ExternalTimeline stream = std::move(timeline);
  expect_empty(timeline.next().wait(), "ExternalTimeline");  // NOLINT: that is the test
  expect_empty(timeline.signal(1), "ExternalTimeline");
  EXPECT_EQ(timeline.name(), "(empty handle)");
  const Event event = stream.next();
  EXPECT_TRUE(stream.signal(1).ok());
  EXPECT_TRUE(event.wait().ok());

  Scheduler scheduler;
  Scheduler moved = std::move(scheduler);
  const std::function<void()> calls[] = {
      [&] { static_cast<void>(scheduler.new_device("work")); },  // NOLINT: as above
      [&] { static_cast<void>(scheduler.new_device(sched::DeviceOptions())); },
      [&] { scheduler.poll(); },
      [&] { scheduler.run_one(); },
      [&] { static_cast<void>(scheduler.descriptor()); },
      [&] { static_cast<void>(scheduler.snapshot()); },
  };
  for (const auto& call : calls) {
    try {
      call();
      ADD_FAILURE() << "did not throw";
    } catch (const Error& error) {
      expect_empty(error.status(), "Scheduler");
    }
  }
  expect_empty(scheduler.shutdown(1s), "Scheduler");
  EXPECT_TRUE(moved.new_device("work").submit("task", [] {}).wait().ok());
}

}  // namespace
}  // namespace heddle
