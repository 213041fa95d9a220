// Waits that hardware takes over: what a gate waits for, and how such tickets end. The hardware is
// a list of what it was asked for; the test ends its tasks.
#include "scheduler/device/hand_over.hpp"

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using sched::Completion;
using testing::HasSubstr;

class ListedQueue final : public sched::HardwareQueue {
 public:
  explicit ListedQueue(std::uint64_t domain) : domain_(domain) {}
  [[nodiscard]] std::uint64_t domain() const noexcept override { return domain_; }
  void end(Completion task) noexcept override {
    const std::lock_guard lock(mutex_);
    tasks_.push_back(std::move(task));
  }
  [[nodiscard]] Status come_after(HardwareQueue& other, std::uint64_t ticket) noexcept override {
    if (refuses) return Status(ErrorCode::unavailable, "no marks left");
    const std::lock_guard lock(mutex_);
    waits_.emplace_back(&other, ticket);
    return {};
  }

  [[nodiscard]] std::size_t begun() const {
    const std::lock_guard lock(mutex_);
    return tasks_.size();
  }
  Status end_one(std::size_t at, Status status = {}) {
    std::unique_lock lock(mutex_);
    Completion task = std::move(tasks_.at(at));
    lock.unlock();
    return task.end(std::move(status));
  }
  [[nodiscard]] std::vector<std::pair<sched::HardwareQueue*, std::uint64_t>> waits() const {
    const std::lock_guard lock(mutex_);
    return waits_;
  }

  std::atomic<bool> refuses{false};

 private:
  const std::uint64_t domain_;
  mutable std::mutex mutex_;
  std::vector<Completion> tasks_;
  std::vector<std::pair<sched::HardwareQueue*, std::uint64_t>> waits_;
};

class HandOverTest : public DeviceTest {
 protected:
  struct On {
    std::shared_ptr<ListedQueue> queue;
    sched::TaskDevice device;
    Event submit(sched::SubmitOptions options = {}) const {
      return device.submit(
          "issue", [on = queue](Completion task) { on->end(std::move(task)); }, options);
    }
  };
  On open_on(std::string name, std::uint64_t domain = 1) {
    sched::DeviceOptions o = options(std::move(name));
    o.in_flight = 4;
    On on{std::make_shared<ListedQueue>(domain), scheduler_.new_device(o)};
    sched::HardwareQueue::give(on.device, on.queue);
    return on;
  }
  void until_begun(const On& on, std::size_t count) {
    while (on.queue->begun() != count) {
      run_ready();
      std::this_thread::yield();
    }
  }
  /// Long enough that a task would have begun.
  void let_run() {
    run_ready();
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    run_ready();
  }
};
HEDDLE_DEVICE_SUITE(HandOverTest);

// D15: a task begins once what it comes after is issued, and the hardware was told to wait; it ends
// after that, though it was reported before
TEST_P(HandOverTest, BeginsOnceTheOtherIsIssued) {
  const On a = open_on("a"), b = open_on("b");
  sched::ExternalTimeline sensor("sensor");
  const Event first = b.submit({.after = {sensor.next()}});
  const Event second = a.submit({.after = {first}});
  let_run();
  EXPECT_EQ(a.queue->begun(), 0U);
  EXPECT_TRUE(sensor.signal(1).ok());
  until_begun(b, 1);
  until_begun(a, 1);
  EXPECT_FALSE(first.done());
  ASSERT_EQ(a.queue->waits().size(), 1U);
  EXPECT_EQ(a.queue->waits().front().first, b.queue.get());
  EXPECT_EQ(a.queue->waits().front().second, first.ticket());
  EXPECT_TRUE(a.queue->end_one(0).ok());
  EXPECT_FALSE(second.done());
  EXPECT_TRUE(b.queue->end_one(0).ok());
  EXPECT_TRUE(first.wait().ok());
  EXPECT_TRUE(second.wait().ok());
}

// D15, S7: what ended as it was issued is issued, before its callbacks run: one may wait for what
// comes after
TEST_P(HandOverTest, CallbacksMayWaitForWhatComesAfter) {
  const On a = open_on("a"), b = open_on("b");
  sched::ExternalTimeline sensor("sensor");
  const auto at_once = [](Completion task) { static_cast<void>(task.end({})); };
  const Event first = a.device.submit("first", at_once, {.after = {sensor.next()}});
  const Event second = b.device.submit("second", at_once, {.after = {first}});
  std::atomic<int> said{-1};
  first.then([&](const Status& /*status*/) {
    said = static_cast<int>(second.wait_for(std::chrono::seconds(30)).code());
  });
  std::thread signaller([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));  // so that both wait
    EXPECT_TRUE(sensor.signal(1).ok());
  });
  EXPECT_TRUE(first.wait().ok());
  EXPECT_TRUE(second.wait().ok());
  signaller.join();
  while (said == -1) {
    run_ready();
    std::this_thread::yield();
  }
  EXPECT_EQ(said, static_cast<int>(ErrorCode::ok));
}

// D15, S10: an event of no timeline, which a refusal gave, is waited for by nobody
TEST_P(HandOverTest, WhatWasRefusedIsOfNoQueue) {
  const On a = open_on("a");
  sched::TaskDevice gone = a.device;
  const sched::TaskDevice moved = std::move(gone);
  const Event refused = gone.submit("refused", [] {});
  ASSERT_FALSE(refused.accepted());
  EXPECT_FALSE(a.submit({.after = {refused}}).wait().ok());
}

// D15, S10: a failure is that of what came after, as at a gate, whatever this task said; and in the
// order of tickets
TEST_P(HandOverTest, FailuresTravel) {
  for (const bool own : {false, true}) {
    const On a = open_on("a"), b = open_on("b");
    const Event first = b.submit();
    const Event second = a.submit({.after = {first}});
    const Event third = a.submit();
    until_begun(a, 2);
    EXPECT_TRUE(a.queue->end_one(1).ok());
    EXPECT_TRUE(a.queue->end_one(0, own ? Status(ErrorCode::exhausted, "its own") : Status()).ok());
    EXPECT_TRUE(b.queue->end_one(0, Status(ErrorCode::device_failed, "bus fault")).ok());
    EXPECT_EQ(second.wait().code(), ErrorCode::device_failed);
    EXPECT_THAT(text(second.status()), HasSubstr("came after"));
    EXPECT_THAT(text(second.status()), HasSubstr("bus fault"));
    EXPECT_THAT(text(second.status()), testing::Not(HasSubstr("its own")));
    EXPECT_TRUE(third.wait().ok());
    EXPECT_EQ(a.device.counters().failed, 0U);
    EXPECT_EQ(a.device.counters().skipped, 1U);
    EXPECT_TRUE(a.device.recover().ok());
    EXPECT_TRUE(b.device.recover().ok());
  }
}

// D15, S10: a contained failure skips what comes after it, and no more
TEST_P(HandOverTest, ContainedFailuresStayContained) {
  const On a = open_on("a"), b = open_on("b");
  const Event first = b.submit({.contain = true});
  const Event second = a.submit({.after = {first}});
  const Event third = a.submit();
  until_begun(a, 2);
  for (const std::size_t k : {0U, 1U}) EXPECT_TRUE(a.queue->end_one(k).ok());
  EXPECT_TRUE(b.queue->end_one(0, Status(ErrorCode::device_failed, "bus fault")).ok());
  EXPECT_FALSE(second.wait().ok());
  EXPECT_TRUE(third.wait().ok());
  EXPECT_EQ(a.device.counters().skipped, 1U);
  EXPECT_FALSE(first.wait().ok());
}

// D15: a wait alone is handed over too, and has ended when the hardware is past it: what comes
// after it comes after what it waits for
TEST_P(HandOverTest, WaitsHaveMarksOfTheirOwn) {
  const On a = open_on("a"), b = open_on("b"), c = open_on("c");
  const Event first = b.submit();
  until_begun(b, 1);
  const Event waited = a.device.wait(first);
  const Event third = c.submit({.after = {waited}});
  until_begun(a, 1);
  until_begun(c, 1);
  ASSERT_EQ(c.queue->waits().size(), 1U);
  EXPECT_EQ(c.queue->waits().front().second, waited.ticket());
  EXPECT_TRUE(c.queue->end_one(0).ok());
  EXPECT_TRUE(b.queue->end_one(0).ok());
  EXPECT_TRUE(first.wait().ok());
  EXPECT_FALSE(waited.done());
  EXPECT_TRUE(a.queue->end_one(0).ok());
  EXPECT_TRUE(third.wait().ok());
  EXPECT_TRUE(waited.wait().ok());
}

// D15: every other wait is the scheduler's: of other domains, of devices without, of hardware that
// takes no more of them, and of tasks that end as they return
TEST_P(HandOverTest, OtherWaitsAreTheGates) {
  const On a = open_on("a"), b = open_on("b"), far = open_on("far", 2);
  const Event elsewhere = far.submit();
  const Event second = a.submit({.after = {elsewhere}});
  let_run();
  EXPECT_EQ(a.queue->begun(), 0U);
  until_begun(far, 1);
  EXPECT_TRUE(far.queue->end_one(0).ok());
  until_begun(a, 1);
  a.queue->refuses = true;
  const Event first = b.submit();
  const Event refused = a.submit({.after = {first}});
  let_run();
  EXPECT_EQ(a.queue->begun(), 1U);
  until_begun(b, 1);
  EXPECT_TRUE(b.queue->end_one(0).ok());
  until_begun(a, 2);
  for (const std::size_t k : {0U, 1U}) EXPECT_TRUE(a.queue->end_one(k).ok());
  EXPECT_TRUE(refused.wait().ok());
  a.queue->refuses = false;
  const Event third = b.submit();
  std::atomic<bool> ran{false};
  const Event plain = a.device.submit("count", [&ran] { ran = true; }, {.after = {third}});
  let_run();
  EXPECT_FALSE(ran);
  until_begun(b, 2);
  EXPECT_TRUE(b.queue->end_one(1).ok());
  EXPECT_TRUE(plain.wait().ok());
  EXPECT_TRUE(a.queue->waits().empty());
  EXPECT_TRUE(second.wait().ok());
}

// D15, S10: an event that failed already refuses at once, though another is not issued yet
TEST_P(HandOverTest, WhatFailedBeforeWaitsForNobody) {
  const On a = open_on("a"), b = open_on("b"), c = open_on("c");
  sched::ExternalTimeline sensor("sensor");
  const Event never = c.submit({.after = {sensor.next()}});
  const Event bad = b.submit();
  until_begun(b, 1);
  EXPECT_TRUE(b.queue->end_one(0, Status(ErrorCode::device_failed, "bus fault")).ok());
  EXPECT_FALSE(bad.wait().ok());
  const Event second = a.submit({.after = {bad, never}});
  EXPECT_FALSE(second.wait().ok());
  EXPECT_TRUE(a.queue->waits().empty());
  EXPECT_TRUE(sensor.signal(1).ok());
  until_begun(c, 1);
  EXPECT_TRUE(c.queue->end_one(0).ok());
  EXPECT_TRUE(never.wait().ok());
}

// D15, S12: a cancel ends the wait for an issue, and leaves what was issued to the hardware
TEST_P(HandOverTest, CancelsEndTheWaitForAnIssue) {
  const On a = open_on("a"), b = open_on("b");
  sched::ExternalTimeline sensor("sensor");
  const Event first = b.submit({.after = {sensor.next()}});
  const Event cancelled = a.submit({.after = {first}});
  let_run();
  a.device.cancel_pending();
  EXPECT_EQ(cancelled.wait().code(), ErrorCode::cancelled);
  EXPECT_TRUE(sensor.signal(1).ok());
  until_begun(b, 1);
  const Event second = a.submit({.after = {first}});
  until_begun(a, 1);
  a.device.cancel_pending();
  EXPECT_TRUE(a.queue->end_one(0).ok());
  let_run();
  EXPECT_FALSE(second.done());
  EXPECT_TRUE(b.queue->end_one(0).ok());
  EXPECT_TRUE(second.wait().ok());
}

// D15, S25: two devices may wait for what the other one issued
TEST_P(HandOverTest, WaitsForIssuedWorkCloseNoCycle) {
  const On a = open_on("a"), b = open_on("b");
  sched::ExternalTimeline sensor("sensor");
  const Event held = a.submit({.after = {sensor.next()}});
  const Event first = b.submit({.after = {held}});
  const Event second = a.submit({.after = {first}});
  EXPECT_TRUE(sensor.signal(1).ok());
  until_begun(a, 2);
  until_begun(b, 1);
  EXPECT_TRUE(a.queue->end_one(1).ok());
  EXPECT_TRUE(b.queue->end_one(0).ok());
  EXPECT_FALSE(first.done());
  EXPECT_TRUE(a.queue->end_one(0).ok());
  EXPECT_TRUE(second.wait().ok());
  EXPECT_TRUE(first.wait().ok());
}

// D15: handles may go while the hardware waits
TEST_P(HandOverTest, HandlesMayGoMeanwhile) {
  std::vector<Event> events;
  std::vector<std::shared_ptr<ListedQueue>> queues;
  std::thread ends;
  {
    const On a = open_on("a"), b = open_on("b");
    queues = {a.queue, b.queue};
    events = {b.submit()};
    events.push_back(a.submit({.after = {events[0]}}));
    until_begun(a, 1);
    until_begun(b, 1);
    ends = std::thread([&] {
      for (const auto& queue : queues) EXPECT_TRUE(queue->end_one(0).ok());
    });
  }
  ends.join();
  for (const Event& event : events) EXPECT_TRUE(event.wait().ok());
  // a device lets go of its queue after its last event is done; a manual one as its host polls
  while (queues[0].use_count() != 1) {
    run_ready();
    std::this_thread::yield();
  }
}

}  // namespace
}  // namespace heddle
