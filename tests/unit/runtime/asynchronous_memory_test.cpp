// Memory of devices whose queues run ahead: what it held before is not seen. The device is held
// where something has not ended.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <span>
#include <stdexcept>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/unit/runtime/asynchronous_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::Each;

class AsynchronousMemoryTest : public AsynchronousFixture {};

// S23, D2: the zeros that a first use begins with are there when the device says so, and not before
TEST_F(AsynchronousMemoryTest, ZerosEndWhenTheyAreThere) {
  physical->hold();
  const BufferView view = new_view();
  EXPECT_EQ(physical->pending(), 0U);
  std::vector<float> values(4, -1);
  const Event read = view.to_host(device, std::as_writable_bytes(std::span(values)));
  wait_until_asked(2);
  EXPECT_FALSE(read.wait_for(20ms).ok());
  physical->resume();
  EXPECT_TRUE(read.wait().ok());
  EXPECT_THAT(values, Each(0));
}

// S23, D2: first values are there for the next use, where the first one was cancelled
TEST_F(AsynchronousMemoryTest, CancelledFirstValuesAreThereAllTheSame) {
  sched::ExternalTimeline gate("gate");
  const Event open = gate.next();
  device.wait(open);
  const BufferView view = new_view();
  std::vector<float> unread(4);
  const Event first = view.to_host(device, std::as_writable_bytes(std::span(unread)));
  physical->hold();
  device.cancel_pending();
  wait_until_asked(1);
  static_cast<void>(first.wait_for(20ms));
  EXPECT_FALSE(first.done());
  physical->resume();
  EXPECT_EQ(first.wait().code(), ErrorCode::cancelled);
  EXPECT_THAT(read(view), Each(0));
  EXPECT_TRUE(gate.signal(open.ticket()).ok());
}

// D2: where the host's code fails that would have given memory its values, the task ends when zeros
// are there: the memory may go then
TEST_F(AsynchronousMemoryTest, TasksOfTheHostEndAfterTheZeros) {
  Program fill("fill");
  Index i;
  fill << (x(i) = Expr(1.0));
  CompileOptions traced;
  traced.trace_values = true;
  const BufferView view = new_view();
  const Routine run = Context(device).with(x, view).link(backend.compile(fill, traced));
  ScheduleOptions failing;
  failing.contain = true;
  failing.trace = [&](const TracedValue&) {
    physical->hold();
    throw std::runtime_error("of the host");
  };
  const Event failed = run.schedule({}, failing);
  wait_until_asked(1);
  static_cast<void>(failed.wait_for(20ms));
  EXPECT_FALSE(failed.done());
  physical->resume();
  EXPECT_THAT(failed.wait().to_string(), testing::HasSubstr("of the host"));
  EXPECT_EQ(physical->pending(), 0u);
}

// D2: a first use that overwrites memory whole may fail when it is asked for, or later
TEST_F(AsynchronousMemoryTest, FailedOverwritesLeaveNothingOfBefore) {
  const Tensor y("y", f32, {4});
  Index i;
  Program fill("fill"), look("look");
  fill << (x(i) = Expr(1.0));
  look << (y(i) = x(i));
  const Code fills = backend.compile(fill), looks = backend.compile(look);
  ScheduleOptions contained, by_hand;
  contained.contain = true;
  by_hand.sync = Sync::manual;  // else what was not written is refused
  const auto values_after = [&](const std::function<void()>& fail) {
    EXPECT_TRUE(write(new_view(), {7, 7, 7, 7}).wait().ok());
    device.await();
    const Routine filler = Context(device).link(fills);
    const Routine looker = filler.context().link(looks);
    physical->hold();
    fail();
    const Event failed = filler.schedule({}, contained);
    looker.schedule({}, by_hand);
    physical->resume();
    EXPECT_EQ(failed.wait().code(), ErrorCode::device_failed);
    return looker.context().read<float>(y);
  };
  EXPECT_THAT(values_after([&] { physical->fail_issue(); }), Each(0));
  EXPECT_THAT(values_after([&] { physical->fail_issue(1); }), Each(0));
  EXPECT_THAT(values_after([&] { physical->fail_next_end(1); }), Each(0));
}

}  // namespace
}  // namespace heddle
