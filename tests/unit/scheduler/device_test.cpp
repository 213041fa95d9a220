// Devices: order, waiting, failure and recovery, events, in both modes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <mutex>
#include <thread>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::TaskDevice;
using testing::HasSubstr;

HEDDLE_DEVICE_SUITE(DeviceTest);

// S1, O10, O11
TEST_P(DeviceTest, RunsTasksInTicketOrder) {
  const TaskDevice device = open("work", 8);
  std::vector<int> order;
  for (int k = 0; k < 1000; ++k) {
    const Event event = device.submit("step", [&order, k] { order.push_back(k); });
    EXPECT_EQ(event.ticket(), static_cast<std::uint64_t>(k + 1));
  }
  EXPECT_TRUE(device.await().ok());
  ASSERT_EQ(order.size(), 1000u);
  EXPECT_TRUE(std::is_sorted(order.begin(), order.end()));
  EXPECT_TRUE(device.is_idle());
}

// S1, S2, O16: any thread submits; each thread's tasks keep their order; tasks run one at a time
TEST_P(DeviceTest, TakesTasksFromManyThreadsOneAtATime) {
  const TaskDevice device = open("work", 64);
  std::vector<std::vector<int>> seen(4);
  int unguarded = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int k = 0; k < 2000; ++k) {
        device.submit("step", [&seen, &unguarded, t, k] {
          seen[static_cast<std::size_t>(t)].push_back(k);
          ++unguarded;
        });
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(unguarded, 8000);
  for (const auto& mine : seen) {
    EXPECT_EQ(mine.size(), 2000u);
    EXPECT_TRUE(std::is_sorted(mine.begin(), mine.end()));
  }
}

// S3: large callables work too, and everything captured is released once the task ended
TEST_P(DeviceTest, KeepsCallablesOfAnySizeAndReleasesThem) {
  const TaskDevice device = open("work");
  const auto kept = std::make_shared<int>(7);
  struct Large {
    std::shared_ptr<int> value;
    char padding[200] = {};
    void operator()() const {}
  };
  const Event small = device.submit("small", [kept] {});
  const Event large = device.submit("large", Large{kept});
  EXPECT_TRUE(large.wait().ok());
  EXPECT_TRUE(small.done());
  EXPECT_EQ(kept.use_count(), 1);
}

// S7
TEST_P(DeviceTest, EventsOutliveTheirDeviceAndKeepTheirEnd) {
  Event good;
  Event bad;
  {
    const TaskDevice device = open("gone");
    good = device.submit("good", [] {});
    bad = device.submit("bad", [] { throw std::runtime_error("boom"); });
    device.await();
  }
  EXPECT_TRUE(good.done());
  EXPECT_TRUE(good.wait().ok());
  EXPECT_TRUE(bad.done());
  EXPECT_THAT(text(bad.wait()), HasSubstr("boom"));
}

// S10, O15, bad input: a task that throws names device, task and ticket, and keeps the exception
TEST_P(DeviceTest, FirstFailurePoisonsAndIsReportedEverywhere) {
  const TaskDevice device = open("gpu7");
  const Event before = device.submit("before", [] {});
  const Event failing = device.submit("divide", [] { throw std::out_of_range("index 9"); });
  EXPECT_EQ(failing.wait().code(), ErrorCode::device_failed);
  const Status awaited = device.await();
  EXPECT_THAT(text(awaited), testing::AllOf(HasSubstr("'gpu7'"), HasSubstr("'divide'"),
                                            HasSubstr("ticket 2"), HasSubstr("index 9")));
  EXPECT_THROW(std::rethrow_exception(awaited.exception()), std::out_of_range);
  EXPECT_EQ(device.await(), awaited);  // await after the failure says the same (O15)
  const Event refused = device.submit("after", [] { FAIL() << "ran on a poisoned device"; });
  EXPECT_FALSE(refused.accepted());
  EXPECT_EQ(refused.status(), awaited);
  EXPECT_TRUE(before.status().ok());
}

// S10: of the task that failed, through all that it took down with it
TEST_P(DeviceTest, FailuresNameTheSubmitSiteWhereRecorded) {
  sched::DeviceOptions recording = options("gpu7");
  recording.record_sites = true;
  const TaskDevice device = scheduler_.new_device(recording);
  const int line = __LINE__ + 1;
  const Event failing = device.submit("divide", [] { throw std::out_of_range("index 9"); });
  const std::string site = "device_test.cpp:" + std::to_string(line);
  EXPECT_THAT(text(failing.wait()), HasSubstr(site));
  const TaskDevice other = open("other");
  other.wait(failing);
  EXPECT_THAT(text(other.submit("after", [] {}).wait()), HasSubstr(site));
  EXPECT_TRUE(device.recover().ok());
  EXPECT_TRUE(device.submit("fine", [] {}).wait().ok());
  const TaskDevice silent = open("silent");
  const Event unnamed = silent.submit("divide", [] { throw std::out_of_range("index 9"); });
  EXPECT_THAT(text(unnamed.wait()), testing::Not(HasSubstr("device_test.cpp")));
}

// S10, bad input: what is no std::exception is reported too
TEST_P(DeviceTest, ThrownIntAndFailedStatusFailTheTask) {
  const TaskDevice a = open("a");
  EXPECT_THAT(text(a.submit("int", [] { throw 7; }).wait()), HasSubstr("no std::exception"));
  const TaskDevice b = open("b");
  const Event failed =
      b.submit("status", [] { return Status(ErrorCode::not_found, "no such file"); });
  EXPECT_THAT(text(failed.wait()), HasSubstr("not_found: no such file"));
  EXPECT_EQ(failed.status().root().code(), ErrorCode::not_found);
}

// S10, S11, S9, O15
TEST_P(DeviceTest, RecoverSkipsWhatIsQueuedAndStartsAnew) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  const Event failing = device.submit("fail", [] { throw std::runtime_error("first"); });
  std::vector<Event> queued;
  for (int k = 0; k < 5; ++k)
    queued.push_back(device.submit("queued", [] { ADD_FAILURE() << "ran after a failure"; }));
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_FALSE(device.await().ok());
  EXPECT_TRUE(device.recover().ok());
  EXPECT_EQ(device.snapshot().recoveries, 1u);
  bool ran = false;
  EXPECT_TRUE(device.submit("again", [&] { ran = true; }).wait().ok());
  EXPECT_TRUE(ran);
  EXPECT_TRUE(device.await().ok());
  EXPECT_THAT(text(failing.status()), HasSubstr("first"));
  for (const Event& event : queued)
    EXPECT_THAT(text(event.status()), testing::AllOf(HasSubstr("skipped"), HasSubstr("first")));
  const auto c = device.counters();
  EXPECT_EQ(c.submitted, c.done + c.failed + c.skipped + c.cancelled);
  EXPECT_EQ(c.skipped, 5u);
  EXPECT_EQ(c.failed, 1u);
}

// S10: contained failures stay with the task and those that list it
TEST_P(DeviceTest, ContainedFailureLeavesTheDeviceUsable) {
  const TaskDevice device = open("work");
  sched::SubmitOptions contain;
  contain.contain = true;
  const Event failing =
      device.submit("try", [] { throw std::runtime_error("tolerated"); }, contain);
  EXPECT_THAT(text(failing.wait()), HasSubstr("tolerated"));
  sched::SubmitOptions depends;
  depends.after = {failing};
  const Event dependent =
      device.submit("dependent", [] { ADD_FAILURE() << "ran after a failed event"; }, depends);
  EXPECT_THAT(text(dependent.wait()),
              testing::AllOf(HasSubstr("'dependent'"), HasSubstr("tolerated")));
  bool ran = false;
  EXPECT_TRUE(device.submit("other", [&] { ran = true; }).wait().ok());
  EXPECT_TRUE(ran);
  EXPECT_TRUE(device.status().ok());
}

// S8, S10: what lists a failed event is skipped alone, and told where nobody asked; a wait of the
// device for it poisons that
TEST_P(DeviceTest, ListedFailuresEndTheirTaskAlone) {
  const TaskDevice failing = open("failing"), device = open("work");
  sched::ExternalTimeline sensor("sensor");
  const Event late = sensor.next(), failed = failing.submit("fail", [] { throw 1; });
  EXPECT_FALSE(failed.wait().ok());
  std::vector<Event> dependents;
  for (const Event& each : {failed, late}) {
    sched::SubmitOptions depends;
    depends.after = {each};
    dependents.push_back(
        device.submit("dependent", [] { ADD_FAILURE() << "ran after a failed event"; }, depends));
  }
  EXPECT_TRUE(sensor.signal(1, Status(ErrorCode::internal, "second")).ok());
  EXPECT_THAT(text(dependents[0].wait()),
              testing::AllOf(HasSubstr("came after"), HasSubstr("'fail'")));
  EXPECT_THAT(text(dependents[1].wait()),
              testing::AllOf(HasSubstr("came after"), HasSubstr("second")));
  bool ran = false;
  EXPECT_TRUE(device.submit("other", [&] { ran = true; }).wait().ok());
  EXPECT_TRUE(ran);
  EXPECT_TRUE(device.status().ok());
  EXPECT_EQ(device.counters().skipped, 2U);
  EXPECT_EQ(device.counters().failed, 0U);
  device.wait(failed);
  EXPECT_THAT(text(device.await()), HasSubstr("'fail'"));
  EXPECT_FALSE(device.submit("later", [] {}).accepted());
}

// S10: one that asks for it has its own status in its event, and cancels itself
TEST_P(DeviceTest, ContainedTasksMayEndWithTheirOwnStatus) {
  const TaskDevice device = open("work");
  sched::SubmitOptions own;
  own.contain = own.own_status = true;
  const Status why(ErrorCode::exhausted, "no more of it");
  EXPECT_EQ(device.submit("say", [&] { return why; }, own).wait(), why);
  EXPECT_EQ(device.submit("throw", [&] { throw Error(why); }, own).wait(), why);
  const Status enough(ErrorCode::cancelled, "enough");
  EXPECT_EQ(device.submit("cancel", [&] { return enough; }, own).wait(), enough);
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(device.counters().failed, 2u);
  EXPECT_EQ(device.counters().cancelled, 1u);
}

// S8, S10: failure crosses devices through waits, with its root
TEST_P(DeviceTest, WaitingForAFailedEventPoisonsWithTheSameRoot) {
  const TaskDevice a = open("a");
  const TaskDevice b = open("b");
  const Event failing = a.submit("origin", [] { throw std::runtime_error("root cause"); });
  b.wait(failing);
  const Event later = b.submit("later", [] { ADD_FAILURE() << "ran"; });
  EXPECT_FALSE(b.await().ok());
  EXPECT_THAT(text(b.status()),
              testing::AllOf(HasSubstr("'b'"), HasSubstr("'origin'"), HasSubstr("root cause")));
  EXPECT_EQ(b.status().root().message(), a.status().root().message());
  EXPECT_FALSE(later.status().ok());
}

// S8
TEST_P(DeviceTest, WaitsForOtherDevicesAndCostsNothingWhenDone) {
  const TaskDevice io = open("io");
  const TaskDevice work = open("work");
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  io.wait(opened);
  int value = 0;
  const Event loaded = io.submit("load", [&] { value = 42; });
  work.wait(loaded);
  int seen = 0;
  const Event stepped = work.submit("step", [&] { seen = value; });
  EXPECT_FALSE(stepped.done());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(stepped.wait().ok());
  EXPECT_EQ(seen, 42);
  const auto before = work.counters().submitted;
  work.wait(loaded);
  work.wait(stepped);
  work.wait(Event());
  EXPECT_EQ(work.counters().submitted, before);
}

// S16, bad input: a task that awaits its own later ticket
TEST_P(DeviceTest, WaitingForItselfIsRefusedNotADeadlock) {
  const TaskDevice device = open("work");
  Status on_later, on_await, on_recover;
  std::optional<TaskDevice> captured = device;
  device.submit("selfish", [&] {
    const Event later = captured->submit("later", [] {});
    on_later = this_task::await(later);
    on_await = captured->await();
    on_recover = captured->recover();
  });
  EXPECT_TRUE(device.await().ok());
  for (const Status& status : {on_later, on_await, on_recover}) {
    EXPECT_EQ(status.code(), ErrorCode::failed_precondition);
    EXPECT_THAT(text(status), HasSubstr("'selfish'"));
  }
}

// S16
TEST_P(DeviceTest, TasksMayAwaitOtherDevicesAndKnowThemselves) {
  const TaskDevice a = open("a");
  const TaskDevice b = open("b");
  std::string label;
  EXPECT_FALSE(this_task::running());
  const Event outer = a.submit("outer", [&] {
    label = this_task::label();
    return this_task::await(b.submit("inner", [] {}));
  });
  EXPECT_TRUE(outer.wait().ok());
  EXPECT_EQ(label, "outer");
  EXPECT_FALSE(this_task::running());
}

// S7: callbacks, at once and later, on an executor too
TEST_P(DeviceTest, CallbacksRunOnceDoneWhereverAsked) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  const Event event = device.submit("step", [] {});
  std::atomic<int> calls{0};
  std::vector<std::function<void()>> posted;
  std::mutex mutex;
  event.then([&](const Status& status) { calls += status.ok() ? 1 : 100; });
  event.then(
      [&](std::function<void()> f) {
        const std::lock_guard lock(mutex);
        posted.push_back(std::move(f));
      },
      [&](const Status&) { calls += 10; });
  EXPECT_EQ(calls, 0);
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(event.wait().ok());
  EXPECT_TRUE(
      device.submit("fence", [] {}).wait().ok());  // the callbacks of `step` ran before this one
  EXPECT_EQ(calls, 1);
  ASSERT_EQ(posted.size(), 1u);
  posted[0]();
  EXPECT_EQ(calls, 11);
  event.then([&](const Status&) { calls += 1000; });
  EXPECT_EQ(calls, 1011);
}

// S7
TEST_P(DeviceTest, EventsArePollable) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  const Event event = device.submit("step", [] {});
  const FileDescriptor fd = event.fd();
  pollfd p{fd.get(), POLLIN, 0};
  EXPECT_EQ(::poll(&p, 1, 0), 0);
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  run_ready();
  EXPECT_EQ(::poll(&p, 1, 10'000), 1);
  EXPECT_TRUE(event.done());
  const FileDescriptor already = event.fd();
  p.fd = already.get();
  EXPECT_EQ(::poll(&p, 1, 0), 1);
}

// S6
TEST_P(DeviceTest, TimedWaitsGiveDeadline) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  const Event opened = gate.next();
  device.wait(opened);
  EXPECT_EQ(device.await_for(5ms).code(), ErrorCode::deadline);
  EXPECT_EQ(opened.wait_for(5ms).code(), ErrorCode::deadline);
  EXPECT_FALSE(device.is_idle());
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_TRUE(device.await_for(10s).ok());
}

// S20
TEST_P(DeviceTest, ExternalTimelinesWaitFailAndRefuseNonsense) {
  sched::ExternalTimeline stream("stream");
  const Event one = stream.next();
  const Event two = stream.next();
  const Event three = stream.next();
  EXPECT_FALSE(one.done());
  EXPECT_EQ(stream.signal(4).code(), ErrorCode::invalid_argument);
  EXPECT_TRUE(stream.signal(2, Status(ErrorCode::device_failed, "lost")).ok());
  EXPECT_TRUE(one.status().ok());
  EXPECT_THAT(text(two.wait()), HasSubstr("lost"));
  EXPECT_EQ(stream.signal(2).code(), ErrorCode::invalid_argument);
  const TaskDevice device = open("work");
  device.wait(two);
  EXPECT_THAT(text(device.await()), HasSubstr("lost"));
  EXPECT_TRUE(stream.signal(3).ok());
  EXPECT_TRUE(three.wait().ok());
  EXPECT_THAT(text(stream.signal(4)), HasSubstr("no ticket is outstanding"));
}

// S17
TEST_P(DeviceTest, SnapshotSaysWhatRunsAndWhatIsQueued) {
  const TaskDevice device = open("work");
  sched::ExternalTimeline gate("gate");
  sched::Snapshot inside;
  std::optional<TaskDevice> captured = device;
  EXPECT_TRUE(device.submit("look", [&] { inside = captured->snapshot(); }).wait().ok());
  EXPECT_EQ(inside.running, "look");
  EXPECT_EQ(inside.running_ticket, 1u);
  EXPECT_THAT(inside.to_string(), HasSubstr("'look'"));
  device.await();
  EXPECT_EQ(device.snapshot().running, "");
  EXPECT_EQ(device.snapshot().queued, 0u);
}

}  // namespace
}  // namespace heddle
