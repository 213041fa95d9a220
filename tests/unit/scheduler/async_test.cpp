// Tasks that end later than they return: their order, their failures, and what else knows of them.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/sanitizers.hpp"
#include "tests/support/logged.hpp"
#include "tests/unit/scheduler/in_flight_fixture.hpp"

namespace heddle {
namespace {

using sched::Completion;
using testing::HasSubstr;

HEDDLE_DEVICE_SUITE(AsyncTaskTest);

// S23: reports come in any order; tasks end in ticket order, and their callables live until then.
TEST_P(AsyncTaskTest, EndInTicketOrder) {
  const auto device = open_async("io");
  Begun begun;
  std::atomic<int> ended{0};
  const auto kept = std::make_shared<int>(7);
  std::vector<Event> events;
  for (int k = 1; k <= 3; ++k) {
    events.push_back(device.submit(
        "read", [&begun, kept](Completion completion) { begun.put(std::move(completion)); }));
    events.back().then([&ended, k](const Status&) { EXPECT_EQ(++ended, k); });
  }
  until_begun(begun, 3);
  EXPECT_EQ(kept.use_count(), 4);
  EXPECT_TRUE(begun.end(2).ok());
  EXPECT_TRUE(begun.end(1).ok());
  EXPECT_FALSE(events[2].done());
  EXPECT_EQ(kept.use_count(), 4);
  EXPECT_TRUE(begun.end(0).ok());
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(kept.use_count(), 1);
  until([&] { return ended == 3; });
  EXPECT_EQ(device.counters().done, 3u);
}

// S23: a task may end within its issue, and a Completion ends its task once.
TEST_P(AsyncTaskTest, EndWithinTheIssue) {
  const auto device = open_async("io", 1);
  int ended = 0;
  for (int k = 0; k < 1000; ++k) {
    device.submit("read", [&ended](Completion completion) {
      EXPECT_TRUE(completion.end().ok());
      EXPECT_EQ(completion.end().code(), ErrorCode::failed_precondition);
      ++ended;
    });
  }
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(ended, 1000);
}

// S23: at most `in_flight` tasks have begun and not ended.
TEST_P(AsyncTaskTest, HasSoManyInFlight) {
  const auto device = open_async("io", 2);
  Begun begun;
  for (int k = 0; k < 5; ++k) device.submit("read", begun.task());
  until_begun(begun, 2);
  EXPECT_TRUE(begun.end(1).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  run_ready();
  EXPECT_EQ(begun.count(), 2u);  // the first has not ended
  EXPECT_TRUE(begun.end(0).ok());
  until_begun(begun, 4);
  for (const std::size_t k : {3u, 2u}) EXPECT_TRUE(begun.end(k).ok());
  until_begun(begun, 5);
  EXPECT_TRUE(begun.end(4).ok());
  EXPECT_TRUE(device.await().ok());
}

// S23: tasks of the usual kind begin when all before them have ended; waits need not.
TEST_P(AsyncTaskTest, OthersBeginWhenAllBeforeHasEnded) {
  const auto device = open_async("io");
  Begun begun;
  std::atomic<bool> ran{false};
  sched::ExternalTimeline sensor("sensor");
  const Event seen = sensor.next();
  device.submit("read", begun.task());
  device.wait(seen);
  device.submit("read", begun.task());
  const Event ordinary = device.submit("count", [&ran] { ran = true; });
  until_begun(begun, 1);
  EXPECT_TRUE(sensor.signal(1).ok());
  until_begun(begun, 2);  // though the first has not ended
  EXPECT_TRUE(begun.end(1).ok());
  run_ready();
  EXPECT_FALSE(ran);
  EXPECT_TRUE(begun.end(0).ok());
  EXPECT_TRUE(ordinary.wait().ok());
  EXPECT_TRUE(ran);
}

// S23: where tasks end as they return, one that takes a Completion is refused.
TEST_P(AsyncTaskTest, RefusedWithoutInFlight) {
  const auto device = open("work");
  const Event refused = device.submit("read", [](Completion) { FAIL() << "it ran"; });
  EXPECT_FALSE(refused.accepted());
  EXPECT_EQ(refused.status().code(), ErrorCode::failed_precondition);
  EXPECT_THAT(text(refused.status()), HasSubstr("in_flight"));
  sched::DeviceOptions too_many = options("io");
  too_many.in_flight = sched::queue_size_max + 1;
  EXPECT_THAT(
      [&] { static_cast<void>(scheduler_.new_device(too_many)); },
      testing::ThrowsMessage<Error>(HasSubstr("in_flight 1048577 (expected 0 to 1048576)")));
}

// S23, S13: a shutdown waits for what is in flight, and ends when that does.
TEST_P(AsyncTaskTest, ShutdownWaitsForWhatIsInFlight) {
  const auto device = open_async("io");
  Begun begun;
  const Event last = device.submit("read", begun.task());
  until_begun(begun, 1);
  std::thread peer([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    EXPECT_TRUE(begun.end(0).ok());
  });
  const Status down = device.shutdown(std::chrono::seconds(60));
  peer.join();
  EXPECT_TRUE(down.ok()) << text(down);
  EXPECT_TRUE(last.done());
}

// S23, S13: one that does not end in time is left to end by itself; it keeps what it uses, and the
// log says when it has ended.
TEST_P(AsyncTaskTest, ShutdownLeavesWhatDoesNotEnd) {
  const test::Logged log;
  Begun begun;
  const auto kept = std::make_shared<int>(7);
  Event last;
  {
    const auto device = open_async("io");
    last = device.submit(
        "read", [&begun, kept](Completion completion) { begun.put(std::move(completion)); });
    until_begun(begun, 1);
    EXPECT_EQ(device.shutdown(std::chrono::milliseconds(1)).code(), ErrorCode::deadline);
  }
  EXPECT_FALSE(last.done());
  EXPECT_EQ(kept.use_count(), 2);
  EXPECT_TRUE(begun.end(0).ok());
  EXPECT_TRUE(last.wait().ok());
  EXPECT_EQ(kept.use_count(), 1);
  until([&] { return log.count("has ended") > 0; });
}

// S23, S13: the last handle may go in the callbacks of a task that was in flight, on any thread:
// what is queued ends by itself.
TEST_P(AsyncTaskTest, LastHandleMayGoInACallback) {
  Begun begun;
  std::optional<sched::TaskDevice> device = open_async("io", 1);
  std::atomic<bool> gone{false};
  const Event first = device->submit("read", begun.task());
  const Event second = device->submit("read", begun.task());
  const Event third = device->submit("count", [] {});
  first.then([&](const Status&) {
    device.reset();
    gone = true;
  });
  until_begun(begun, 1);
  std::thread peer([&] { EXPECT_TRUE(begun.end(0).ok()); });
  peer.join();
  until([&] { return gone.load(); });
  until_begun(begun, 2);
  EXPECT_TRUE(begun.end(1).ok());
  until([&] { return third.done(); });
  EXPECT_TRUE(second.status().ok() && third.status().ok());
}

// S23: a callback on the thread that ends a task counts as part of that task: it may not
// wait for what comes after it, and may for others.
TEST_P(AsyncTaskTest, CallbacksMayNotWaitForTheirDevice) {
  const auto device = open_async("io");
  Begun begun;
  const auto elsewhere = scheduler_.new_device("elsewhere");
  const Event first = device.submit("read", begun.task());
  const Event second = device.submit("write", begun.task());
  int called = 0;
  first.then([&](const Status&) {
    ++called;
    EXPECT_STREQ(this_task::label(), "read");
    EXPECT_EQ(this_task::ticket(), 1u);
    EXPECT_EQ(second.wait().code(), ErrorCode::failed_precondition);
    EXPECT_EQ(device.await().code(), ErrorCode::failed_precondition);
    EXPECT_TRUE(elsewhere.submit("count", [] {}).wait().ok());
    EXPECT_TRUE(begun.end(1).ok());
  });
  until_begun(begun, 2);
  EXPECT_TRUE(begun.end(0).ok());
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(called, 1);
}

// S23, S25: a gate for what has been issued is no wait for its device: these two do not wait in a
// cycle.
TEST_P(AsyncTaskTest, DevicesMayWaitForEachOther) {
  const auto a = open_async("a"), b = open_async("b");
  Begun at_a, at_b;
  const Event a1 = a.submit("first", at_a.task());
  until_begun(at_a, 1);
  const Event b1 = b.submit("second", at_b.task(), {.after = {a1}});
  const Event a2 = a.submit("third", at_a.task(), {.after = {b1, a1}});
  const Event b2 = b.submit("fourth", [] {}, {.after = {a2}});
  run_ready();
  EXPECT_TRUE(at_a.end(0).ok());
  until_begun(at_b, 1);
  EXPECT_TRUE(at_b.end(0).ok());
  until_begun(at_a, 2);
  EXPECT_TRUE(at_a.end(1).ok());
  EXPECT_TRUE(b2.wait().ok()) << text(b2.status());
}

// S23, S17: snapshots tell what is in flight, and name the first of it.
TEST_P(AsyncTaskTest, SnapshotsTellWhatIsInFlight) {
  const auto device = open_async("io");
  Begun begun;
  device.submit("read", begun.task());
  device.submit("write", begun.task());
  until_begun(begun, 2);
  until([&] { return device.snapshot().in_flight == 2; });
  const sched::Snapshot before = device.snapshot();
  EXPECT_EQ(before.running, "read");
  EXPECT_EQ(before.running_ticket, 1u);
  EXPECT_TRUE(begun.end(0).ok());
  until([&] { return device.snapshot().running_ticket == 2; });
  EXPECT_EQ(device.snapshot().running, "write");
  EXPECT_TRUE(begun.end(1).ok());
  EXPECT_TRUE(device.await().ok());
}

#ifndef HEDDLE_TSAN  // whose own locks other threads may hold as their process is forked
// S23, S14: in a forked child a Completion ends nothing.
TEST_P(AsyncTaskTest, ForkedChildrenEndNothing) {
  const auto device = open_async("io");
  Begun begun;
  const Event first = device.submit("read", begun.task());
  until_begun(begun, 1);
  Completion completion = begun.take(0);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool refused = completion.end().code() == ErrorCode::unavailable;
    ::_exit(refused && !completion.pending() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  EXPECT_FALSE(first.done());
  EXPECT_TRUE(completion.end().ok());
  EXPECT_TRUE(first.wait().ok());
}
#endif

// S23: threads end tasks in any order while others are issued: each ends once, in order.
TEST_P(AsyncTaskTest, ThreadsEndThem) {
  constexpr int tasks = 2000, enders = 3;
  const auto device = open_async("io", 8);
  std::atomic<int> ended{0};
  Begun begun[enders];
  std::atomic<bool> over{false};
  std::vector<std::thread> threads;
  for (int k = 0; k < enders; ++k) {
    threads.emplace_back([&, k] {
      std::mt19937 random(static_cast<unsigned>(k) + 1);
      std::vector<std::size_t> mine;
      std::size_t seen = 0;
      while (!over) {
        while (seen < begun[k].count()) mine.push_back(seen++);
        if (mine.empty()) {
          std::this_thread::yield();
          continue;
        }
        std::swap(mine[random() % mine.size()], mine.back());
        EXPECT_TRUE(begun[k].end(mine.back()).ok());
        mine.pop_back();
      }
    });
  }
  for (int k = 0; k < tasks; ++k) {
    const Event event = device.submit("read", begun[k % enders].task());
    event.then([&ended, k](const Status&) { EXPECT_EQ(ended++, k); });
    run_ready();
  }
  EXPECT_TRUE(device.await().ok());
  until([&] { return ended == tasks; });
  over = true;
  for (std::thread& thread : threads) thread.join();
}

}  // namespace
}  // namespace heddle
