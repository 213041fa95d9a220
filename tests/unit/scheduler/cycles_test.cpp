// Waits that would close a cycle: one of them is refused, and nobody hangs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::ExternalTimeline;
using sched::TaskDevice;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

class CyclesTest : public DeviceTest {
 protected:
  /// Opens the gate, and waits until all devices are idle, as a host of manual ones does.
  void let_go(const std::vector<TaskDevice>& devices) {
    EXPECT_TRUE(gate_.signal(opened_.ticket()).ok());
    const auto deadline = TaskDevice::Clock::now() + 60s;
    for (const TaskDevice& device : devices) {
      EXPECT_NE(device.await_until(deadline).code(), ErrorCode::deadline)
          << "hangs: " << device.snapshot().to_string();
    }
  }
  ExternalTimeline gate_{"gate"};
  const Event opened_ = gate_.next();
};
HEDDLE_DEVICE_SUITE(CyclesTest);

/// The refusal among `ends`, all others of which are ok.
Status refusal_of(const std::vector<Status>& ends) {
  const auto refused = std::ranges::find(ends, ErrorCode::failed_precondition, &Status::code);
  EXPECT_EQ(std::ranges::count(ends, ErrorCode::ok, &Status::code),
            static_cast<std::ptrdiff_t>(ends.size()) - 1);
  return refused == ends.end() ? Status() : *refused;
}

/// One of these is refused, in words that name each device, and the others are ok.
void expect_one_refused(const std::vector<Status>& ends, const std::vector<std::string>& names) {
  const Status refused = refusal_of(ends);
  for (const std::string& name : names) EXPECT_THAT(text(refused), HasSubstr("'" + name + "'"));
  EXPECT_THAT(text(refused), HasSubstr("cycle"));
}

// S16, S25: tasks that await each other's events, round and round
TEST_P(CyclesTest, TasksThatAwaitEachOther) {
  for (const std::size_t count : {2, 3, 20}) {
    for (int round = 0; round < 50 / static_cast<int>(test::slower); ++round) {
      ExternalTimeline start("start");
      const Event begin = start.next();
      std::vector<TaskDevice> devices;
      std::vector<Event> events(count);
      std::vector<Status> ends(count, Status(ErrorCode::internal, "not run"));
      for (std::size_t k = 0; k < count; ++k) {
        devices.push_back(open("device " + std::to_string(k)));
        devices[k].wait(begin);
        events[k] = devices[k].submit(
            "waits", [&, k] { ends[k] = this_task::await(events[(k + 1) % count]); });
      }
      EXPECT_TRUE(start.signal(1).ok());
      for (std::size_t k = 0; k < count; ++k)
        ASSERT_NE(devices[k].await_for(60s).code(), ErrorCode::deadline);
      // The text names the first few devices of a long cycle.
      std::vector<std::string> names;
      if (count <= 3) names = {"device 0", "device 1"};
      expect_one_refused(ends, names);
    }
  }
}

// S16, S25: a gate and a task's wait, whichever begins first
TEST_P(CyclesTest, GateAndTask) {
  for (const bool listed : {false, true}) {
    for (int round = 0; round < 20; ++round) {
      ExternalTimeline start("start");
      const Event begin = start.next();
      const TaskDevice a = open("a"), b = open("b");
      Event on_b;
      Status seen(ErrorCode::internal, "not run");
      a.wait(begin);
      const Event on_a = a.submit("waits", [&] { seen = on_b.wait(); });
      b.wait(begin);
      sched::SubmitOptions after;
      if (listed) {
        after.after = {on_a};
      } else {
        b.wait(on_a);
      }
      on_b = b.submit("after", [] {}, after);
      EXPECT_TRUE(start.signal(1).ok());
      ASSERT_NE(a.await_for(60s).code(), ErrorCode::deadline);
      ASSERT_NE(b.await_for(60s).code(), ErrorCode::deadline);
      // Either the task's wait was refused, and the gate opened, or the gate's, and the task saw
      // it.
      ASSERT_FALSE(seen.ok());
      EXPECT_EQ(seen.root().code(), ErrorCode::failed_precondition) << text(seen);
      EXPECT_THAT(text(seen), AllOf(HasSubstr("cycle"), HasSubstr("'a'"), HasSubstr("'b'")));
      EXPECT_EQ(on_b.status().ok(), seen.code() == ErrorCode::failed_precondition);
      // A wait that is refused poisons its device; what lists the event is skipped alone.
      EXPECT_EQ(b.status().ok(), listed || on_b.status().ok());
      EXPECT_TRUE(on_a.status().ok());
    }
  }
}

// S10, S25: a refused gate that is contained leaves its device usable
TEST_P(CyclesTest, RefusedGateMayBeContained) {
  const TaskDevice a = open("a"), b = open("b");
  ExternalTimeline waiting("waiting");
  const Event begun = waiting.next();
  Event on_b;
  Status seen;
  a.wait(opened_);
  const Event on_a = a.submit("waits", [&] {
    EXPECT_TRUE(waiting.signal(1).ok());
    seen = on_b.wait();
  });
  b.wait(begun);
  sched::SubmitOptions after;
  after.contain = true;
  after.after = {on_a};
  on_b = b.submit("after", [] {}, after);
  let_go({a, b});
  EXPECT_EQ(seen.root().code(), ErrorCode::failed_precondition) << text(seen);
  EXPECT_TRUE(b.submit("next", [] {}).wait().ok());
}

// S6, S25: tasks that await each other's devices
TEST_P(CyclesTest, TasksThatAwaitEachOthersDevices) {
  const TaskDevice a = open("a"), b = open("b");
  std::vector<Status> ends(2);
  a.wait(opened_);
  b.wait(opened_);
  a.submit("waits", [&] { ends[0] = b.await(); });
  b.submit("waits", [&] { ends[1] = a.await(); });
  let_go({a, b});
  // An inline task that waits runs the other within itself, so that one awaits its own device.
  EXPECT_THAT(text(refusal_of(ends)),
              AnyOf(AllOf(HasSubstr("cycle"), HasSubstr("'a'"), HasSubstr("'b'")),
                    HasSubstr("inside its own task")));
}

// S4, S25: a task that waits for another's end, which waits for room in the first one's queue
TEST_P(CyclesTest, FullQueueAndWait) {
  for (int round = 0; round < 20; ++round) {
    ExternalTimeline start("start");
    const Event begin = start.next();
    const TaskDevice a = open("a"), b = open("b", 2);
    Status waited(ErrorCode::internal, "not run"), submitted = waited;
    a.wait(begin);
    const Event on_a = a.submit("submits", [&] {
      for (int k = 0; k < 3 && submitted.code() != ErrorCode::exhausted; ++k)
        submitted = b.submit("more", [] {}).status();
    });
    b.wait(begin);
    b.submit("waits", [&] { waited = on_a.wait(); });
    EXPECT_TRUE(start.signal(1).ok());
    ASSERT_NE(a.await_for(60s).code(), ErrorCode::deadline);
    ASSERT_NE(b.await_for(60s).code(), ErrorCode::deadline);
    if (submitted.code() == ErrorCode::exhausted) {
      EXPECT_TRUE(waited.ok());
      EXPECT_THAT(text(submitted), HasSubstr("cycle"));
    } else {
      EXPECT_TRUE(submitted.ok()) << text(submitted);
      EXPECT_TRUE(waited.ok() || waited.code() == ErrorCode::failed_precondition) << text(waited);
    }
  }
}

// S16, S25: a wait that has a deadline ends by itself, so it refuses nobody else
TEST_P(CyclesTest, TimedWaitsHoldNobodyUpForEver) {
  const TaskDevice a = open("a"), b = open("b");
  Event on_b;
  Status timed, untimed(ErrorCode::internal, "not run");
  a.wait(opened_);
  const Event on_a = a.submit("timed", [&] { timed = on_b.wait_for(50ms); });
  b.wait(opened_);
  on_b = b.submit("untimed", [&] { untimed = on_a.wait(); });
  let_go({a, b});
  EXPECT_TRUE(untimed.ok()) << text(untimed);
  EXPECT_THAT(timed.code(), testing::AnyOf(ErrorCode::deadline, ErrorCode::failed_precondition));
}

// S20, S25: nobody knows what a foreign signaller waits for
TEST_P(CyclesTest, ForeignTimelinesCloseNone) {
  const TaskDevice a = open("a"), b = open("b");
  ExternalTimeline stream("stream");
  const Event foreign = stream.next();
  std::vector<Status> ends(2, Status(ErrorCode::internal, "not run"));
  const Event on_a = a.submit("waits", [&] { ends[0] = foreign.wait(); });
  b.submit("waits", [&] { ends[1] = on_a.wait(); });
  on_a.then([](const Status&) {});
  std::thread signaller([&] {
    std::this_thread::sleep_for(5ms);
    EXPECT_TRUE(stream.signal(1).ok());
  });
  let_go({a, b});
  signaller.join();
  for (const Status& end : ends) EXPECT_TRUE(end.ok()) << text(end);
}

}  // namespace
}  // namespace heddle
