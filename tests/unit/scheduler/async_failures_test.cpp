// Tasks that end later than they return and fail, at issue or at their end, or are cancelled.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <optional>
#include <stop_token>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/in_flight_fixture.hpp"

namespace heddle {
namespace {

using sched::Completion;
using testing::HasSubstr;

class AsyncTaskFailuresTest : public AsyncTaskTest {};
HEDDLE_DEVICE_SUITE(AsyncTaskFailuresTest);

// S23: a Completion that is dropped fails its task, wherever it is.
TEST_P(AsyncTaskFailuresTest, DroppedCompletionsFail) {
  const auto device = open_async("io");
  Begun begun;
  const Event at_once = device.submit("read", [](Completion) {});
  EXPECT_EQ(at_once.wait().code(), ErrorCode::device_failed);
  EXPECT_THAT(text(at_once.status()), HasSubstr("dropped"));
  EXPECT_THAT(text(at_once.status()), HasSubstr("'read'"));
  EXPECT_TRUE(device.recover().ok());
  const Event overwritten = device.submit("read", begun.task());
  const Event second = device.submit("read", begun.task());
  until_begun(begun, 2);
  Completion completion = begun.take(0);
  completion = begun.take(1);
  EXPECT_EQ(overwritten.wait().code(), ErrorCode::device_failed);
  EXPECT_TRUE(completion.end().ok());
  EXPECT_FALSE(second.wait().ok());
  EXPECT_EQ(device.counters().skipped, 1u);
}

// S23, S10: a failure at issue is told as one at the end is, in ticket order, once the Completion
// is gone.
TEST_P(AsyncTaskFailuresTest, FailuresAtIssueAndAtTheEnd) {
  const auto device = open_async("io");
  Begun begun;
  const Event first = device.submit("read", begun.task());
  const Event throws = device.submit("write",
                                     [&begun](Completion completion) {
                                       begun.put(std::move(completion));
                                       throw std::runtime_error("no such queue");
                                     },
                                     {.contain = true});
  const Event fails =
      device.submit("write", [](Completion) { return Status(ErrorCode::exhausted, "queue full"); },
                    {.contain = true});
  const Event at_end = device.submit("read", begun.task(), {.contain = true});
  until_begun(begun, 3);
  EXPECT_FALSE(fails.done());
  EXPECT_TRUE(begun.end(2, Status(ErrorCode::unavailable, "peer left")).ok());
  EXPECT_TRUE(begun.end(0).ok());
  EXPECT_TRUE(first.wait().ok());
  EXPECT_FALSE(throws.done());  // its Completion is there
  EXPECT_TRUE(begun.end(1).ok());
  EXPECT_THAT(text(throws.wait()), HasSubstr("no such queue"));
  EXPECT_THAT(text(fails.wait()), HasSubstr("queue full"));
  EXPECT_THAT(text(at_end.wait()), HasSubstr("peer left"));
  EXPECT_TRUE(device.await().ok());
}

// S23, S11: what was issued behind a failure is skipped, whichever was reported first, and so is
// what is queued; after recover() tasks run again.
TEST_P(AsyncTaskFailuresTest, FailuresDecideInTicketOrder) {
  const auto device = open_async("io", 2);
  Begun begun;
  const Event fails = device.submit("read", begun.task());
  const Event behind = device.submit("read", begun.task());
  const Event queued = device.submit("read", begun.task());
  until_begun(begun, 2);
  EXPECT_TRUE(begun.end(1).ok());
  EXPECT_TRUE(begun.end(0, Status(ErrorCode::unavailable, "peer left")).ok());
  EXPECT_EQ(device.await().code(), ErrorCode::device_failed);
  for (const Event& event : {behind, queued}) {
    EXPECT_TRUE(event.done());
    EXPECT_THAT(text(event.status()), HasSubstr("skipped"));
  }
  EXPECT_THAT(text(fails.status()), HasSubstr("peer left"));
  EXPECT_EQ(begun.count(), 2u);
  EXPECT_EQ(device.counters().skipped, 2u);
  EXPECT_TRUE(device.recover().ok());
  const Event again = device.submit("read", begun.task());
  until_begun(begun, 3);
  EXPECT_TRUE(begun.end(2).ok());
  EXPECT_TRUE(again.wait().ok());
}

// S23, S12: a cancel asks tasks in flight to stop, drops those that are queued, and is for none
// after it.
TEST_P(AsyncTaskFailuresTest, CancelAsksWhatIsInFlight) {
  const auto device = open_async("io", 2);
  Begun begun;
  std::vector<std::stop_token> tokens;
  const auto task = [&](Completion completion) {
    tokens.push_back(this_task::stop_token());
    begun.put(std::move(completion));
  };
  std::vector<Event> events;
  for (int k = 0; k < 3; ++k) events.push_back(device.submit("read", task));
  until_begun(begun, 2);
  device.cancel_pending();
  EXPECT_TRUE(tokens.at(0).stop_requested() && tokens.at(1).stop_requested());
  events.push_back(device.submit("read", task));
  EXPECT_TRUE(begun.end(1, Status(ErrorCode::cancelled, "as asked")).ok());
  EXPECT_TRUE(begun.end(0).ok());  // it came to its end all the same
  until_begun(begun, 3);
  EXPECT_FALSE(tokens.at(2).stop_requested());
  EXPECT_TRUE(begun.end(2).ok());
  EXPECT_TRUE(device.await().ok());
  EXPECT_TRUE(events[0].status().ok());
  EXPECT_EQ(events[1].status().code(), ErrorCode::cancelled);
  EXPECT_EQ(events[2].status().code(), ErrorCode::cancelled);
  EXPECT_TRUE(events[3].status().ok());
  EXPECT_EQ(device.counters().cancelled, 2u);
}

}  // namespace
}  // namespace heddle
