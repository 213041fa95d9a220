// Sync::check by its rules: what is told, and what gives an order.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/unit/runtime/order_fixture.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

// D9: each kind of order between two devices is told, and mended by `after`
TEST_F(OrderCheckTest, EachHazardIsTold) {
  const Event first = write(one);
  read(two);
  settle();
  EXPECT_EQ(backend.missing_orders(), 1U);
  read(two, {write(one)});
  settle();
  read(one);
  write(two);
  EXPECT_THAT(told(), ElementsAre("read < write"));
  settle();
  write(two, {read(one)});
  EXPECT_THAT(told(), IsEmpty());
  settle();
  write(one);
  write(two);
  EXPECT_THAT(told(), ElementsAre("write < write"));
  settle();
  write(two, {write(one)});
  one.submit("read again", {.reads = {view()}}, [] {});
  EXPECT_THAT(told(), ElementsAre("write < read again"));
  settle();
  read(one);
  read(two);
  write(one, {read(two)});
  EXPECT_THAT(told(), IsEmpty());
}

// D9: what is told names both uses, the memory and what mends it
TEST_F(OrderCheckTest, TellsWhoWhatAndWhere) {
  const Event first = one.submit("fill", {.writes = {view(0, 8)}}, [] {});
  const auto line = static_cast<std::uint32_t>(__LINE__ - 1);
  const Event then = two.submit("use", {.reads = {view(4, 12)}}, [] {});
  for (const Device& each : {one, two}) each.await();
  const std::vector<MissingOrder> all = found.take();
  ASSERT_THAT(all, SizeIs(1));
  const MissingOrder& it = all[0];
  EXPECT_EQ(it.before.event.id(), first.id());
  EXPECT_EQ(it.after.event.id(), then.id());
  EXPECT_EQ(it.before.device, one.name());
  EXPECT_EQ(it.after.ticket, then.ticket());
  EXPECT_EQ(it.before.site.line(), line);
  EXPECT_TRUE(it.before.writes);
  EXPECT_FALSE(it.after.writes);
  const std::string name_one = "'fill' (" + one.name() + "#" + std::to_string(first.ticket()) + ")";
  const std::string name_two = "'use' (" + two.name() + "#" + std::to_string(then.ticket()) + ")";
  EXPECT_THAT(it.to_string(),
              AllOf(HasSubstr("missing order on a buffer u8[8] of " + one.name()),
                    HasSubstr(name_one + " writes bytes 0 to 8, asked for at "),
                    HasSubstr("order_check_test.cpp:" + std::to_string(line)),
                    HasSubstr(name_two + " reads bytes 4 to 12"),
                    HasSubstr("submit " + name_two + " with .after = {the event of " + name_one)));
}

// D9: bytes that do not overlap are in no order
TEST_F(OrderCheckTest, OtherBytesAreNotTold) {
  one.submit("left", {.writes = {view(0, 8)}}, [] {});
  two.submit("right", {.writes = {view(8, 16)}}, [] {});
  three.submit("all", {.reads = {view()}}, [] {});
  EXPECT_THAT(told(), ElementsAre("left < all", "right < all"));
}

// D9: what is told of one use is not told of those that it stands for
TEST_F(OrderCheckTest, LaterUsesStandForEarlierOnes) {
  const auto nothing = [] {};
  const Event first = one.submit("first", {.writes = {view()}}, nothing);
  two.submit("second", {.writes = {view()}}, nothing, {.after = {first}});
  three.submit("third", {.reads = {view()}}, nothing);
  EXPECT_THAT(told(), ElementsAre("second < third"));
  one.submit("read", {.reads = {view()}}, nothing);
  one.submit("once more", {.reads = {view()}}, nothing);
  two.submit("last", {.writes = {view()}}, nothing);
  EXPECT_THAT(told(), ElementsAre("once more < last"));
}

// D9: the same two places and memory are told once; another memory is another matter
TEST_F(OrderCheckTest, IsToldOnce) {
  const Buffer other = Buffer::allocate(one, {u8, {16}});
  for (int k = 0; k < 5; ++k) {
    write(one);
    read(two);
    settle();
  }
  EXPECT_EQ(backend.missing_orders(), 1U);
  one.submit("write", {.writes = {BufferView(other, {u8, {16}})}}, [] {});
  two.submit("read", {.reads = {BufferView(other, {u8, {16}})}}, [] {});
  settle();
  EXPECT_EQ(backend.missing_orders(), 2U);
}

// D9: order passes on: through other devices, plain tasks and waits of devices
TEST_F(OrderCheckTest, OrderPassesOn) {
  Scheduler scheduler;
  const sched::TaskDevice plain = scheduler.new_device("plain");
  const Event hop = plain.submit("hop", [] {}, {.after = {write(one)}});
  plain.submit("next", [] {});
  three.wait(plain.record());
  read(two, {three.record()});
  const Event last = three.submit("nothing", [] {});
  write(one, {hop});
  EXPECT_THAT(told(), ElementsAre("read < write"));
  settle();
  const Event done = write(one);
  while (!two.timeline().wait(done).done()) std::this_thread::yield();
  three.await();
  EXPECT_THAT(told(), IsEmpty());
}

// D9: a wait of a device counts also where the event has ended, and the device has no task for it
TEST_F(OrderCheckTest, DevicesWaitForWhatHasEnded) {
  const Event written = write(one);
  while (one.timeline().snapshot().queued != 0) std::this_thread::yield();  // which is no order
  const std::uint64_t before = two.timeline().counters().submitted;
  two.wait(written);
  EXPECT_EQ(two.timeline().counters().submitted, before);
  read(two);
  EXPECT_THAT(told(), IsEmpty());
}

// D9: and so does what comes after that device, which may have had no task at all
TEST_F(OrderCheckTest, WhatHasEndedPassesOn) {
  const Event written = write(one);
  while (one.timeline().snapshot().queued != 0) std::this_thread::yield();  // which is no order
  three.wait(written);
  read(two, {three.record()});
  EXPECT_THAT(told(), IsEmpty());
  EXPECT_EQ(three.record().ticket(), three.record().ticket()) << "nothing is owed any more";
}

// D9, S10: looking at the order changes no event: a device that takes no task has the same ones
TEST_F(OrderCheckTest, FailedDevicesRecordAsEver) {
  const Event written = write(one);
  const Event bad = three.submit("bad", [] { throw std::runtime_error("bad"); });
  while (one.timeline().snapshot().queued != 0 || three.timeline().snapshot().queued != 0)
    std::this_thread::yield();
  three.wait(written);
  EXPECT_EQ(three.record().ticket(), bad.ticket());
  EXPECT_FALSE(bad.wait().ok());
}

// D9: what the host has seen end comes before what it submits, from whichever thread
TEST_F(OrderCheckTest, TheHostSeesEnds) {
  const std::function<void(const Event&)> sees[] = {
      [](const Event& event) { EXPECT_TRUE(event.wait().ok()); },
      [](const Event& event) { EXPECT_TRUE(event.wait_for(std::chrono::hours(1)).ok()); },
      [](const Event& event) {
        while (!event.done()) std::this_thread::yield();
      },
      [this](const Event&) { one.await(); },
      [this](const Event&) {
        while (!one.is_idle()) std::this_thread::yield();
      },
      [](const Event& event) {
        std::atomic<bool> called{false};
        event.then([&](const Status&) { called = true; });
        while (!called) std::this_thread::yield();
      },
      [](const Event& event) { std::thread([&] { EXPECT_TRUE(event.wait().ok()); }).join(); }};
  for (const auto& see : sees) {
    see(write(one));
    read(two);
    EXPECT_THAT(told(), IsEmpty());
    settle();
  }
  write(one);
  while (one.timeline().snapshot().queued != 0) std::this_thread::yield();
  read(two);
  EXPECT_THAT(told(), ElementsAre("write < read"));
}

// D9: what a task submits comes after what the task came after, and not after the task
TEST_F(OrderCheckTest, TasksKnowWhatCameBeforeThem) {
  const Event written = write(one);
  three.submit("after it", [&] { read(two); }, {.after = {written}}).wait();
  EXPECT_THAT(told(), IsEmpty());
  settle();
  three.submit("itself", {.writes = {view()}}, [&] { read(two); }).wait();
  EXPECT_THAT(told(), ElementsAre("itself < read"));
}

// D9: a wait inside a task counts for what comes after the task, whenever that was submitted; what
// the task touches may come after the wait
TEST_F(OrderCheckTest, WaitsInsideTasksCount) {
  sched::ExternalTimeline gate("gate");
  one.wait(gate.next());
  const Event written = write(one);
  const auto wait = [&] { throw_if_failed(this_task::await(written)); };
  const Event waits = three.submit("waits", {.reads = {view()}}, wait);
  const Event last = read(two, {waits});
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(last.wait().ok());
  EXPECT_EQ(backend.missing_orders(), 0U);
  // Without the wait it is told once that is sure.
  one.wait(gate.next());
  write(one);
  const Event idle = three.submit("idles", [] {});
  const Event late = two.submit("late", {.reads = {view()}}, [] {}, {.after = {idle}});
  EXPECT_TRUE(late.wait().ok());
  EXPECT_THAT(found.take_labels(), ElementsAre("write < late"));
  EXPECT_TRUE(gate.signal(2).ok());
}

// D9: whoever signals an event, or ends a task later, passes on what it knows then
TEST_F(OrderCheckTest, SignalsPassOn) {
  sched::ExternalTimeline outside("outside");
  const Event ending = outside.next();
  const Event written = write(one);
  const Event last = read(two, {ending});
  EXPECT_TRUE(written.wait().ok());
  EXPECT_TRUE(outside.signal(ending.ticket()).ok());
  EXPECT_TRUE(last.wait().ok());
  EXPECT_EQ(backend.missing_orders(), 0U);
  settle();
  Scheduler scheduler;
  sched::DeviceOptions in_flight;
  in_flight.in_flight = 2;
  const sched::TaskDevice later = scheduler.new_device(in_flight);
  std::optional<sched::Completion> end;
  std::atomic<bool> begun{false};
  const Event ended = later.submit("later", [&](sched::Completion completion) {
    end.emplace(std::move(completion));
    begun = true;
  });
  while (!begun) std::this_thread::yield();
  const Event again = write(one);
  const Event after = read(two, {ended});
  EXPECT_TRUE(again.wait().ok());
  EXPECT_TRUE(end->end().ok());
  EXPECT_TRUE(after.wait().ok());
  EXPECT_EQ(backend.missing_orders(), 0U);
}

// D9: an order that is missing is told also if the task that signals knew nothing
TEST_F(OrderCheckTest, SignalsThatKnowNothingGiveNoOrder) {
  sched::ExternalTimeline outside("outside");
  const Event ending = outside.next();
  sched::ExternalTimeline gate("gate");
  one.wait(gate.next());
  write(one);
  const Event last = read(two, {ending});
  EXPECT_TRUE(outside.signal(ending.ticket()).ok());
  EXPECT_TRUE(last.wait().ok());
  EXPECT_THAT(found.take_labels(), ElementsAre("write < read"));
  EXPECT_TRUE(gate.signal(1).ok());
}

// D9: with sync automatic, host work that says what it touches waits for it
TEST_F(OrderCheckTest, AutomaticHostWorkWaits) {
  sched::ExternalTimeline gate("gate");
  one.wait(gate.next());
  write(one);
  const auto nothing = [] {};
  const Event last = two.submit("reader", {.reads = {view()}, .sync = Sync::automatic}, nothing);
  EXPECT_EQ(last.wait_for(std::chrono::milliseconds(5)).code(), ErrorCode::deadline);
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(last.wait().ok());
  // What it waited for, what comes after it comes after.
  write(three, {last});
  EXPECT_THAT(told(), IsEmpty());
}

// D9: a new owner comes after the uses of the one before by itself, and passes that on
TEST_F(OrderCheckTest, DonationsAreInOrder) {
  const Event other = read(three);
  const Buffer mine = Buffer::allocate(three, {u8, {16}});
  const BufferView of_three(mine, {u8, {16}});
  const auto nothing = [] {};
  one.submit("both", {.writes = {view(), of_three}}, nothing, {.after = {other}});
  const Buffer next = buffer.donate();
  two.submit("new",
             {
                 .writes = {BufferView(next, {u8, {16}})},
             },
             nothing);
  two.submit("passed on", {.reads = {of_three}}, nothing);
  three.submit("left out", {.reads = {BufferView(next, {u8, {16}})}}, nothing);
  EXPECT_THAT(told(), ElementsAre("new < left out"));
}

// D9: nor are the zeros that memory begins with, whoever uses it first
TEST_F(OrderCheckTest, ZerosAreThere) {
  const Buffer fresh = Buffer::allocate(one, {u8, {16}});
  const BufferView all(fresh, {u8, {16}});
  two.submit("first", {.reads = {all}}, [] {});
  three.submit("second", {.reads = {all}}, [] {});
  EXPECT_THAT(told(), IsEmpty());
  // Those of memory that is in use yet are a task.
  sched::ExternalTimeline gate("gate");
  one.wait(gate.next());
  const ArrayType odd{u8, {70'000}};
  {
    const BufferView before(Buffer::allocate(one, odd), odd);
    one.submit("before", {.reads = {before}}, [] {});
  }
  const Buffer again = Buffer::allocate(one, odd);
  two.submit("after", {.reads = {BufferView(again, odd)}}, [] {});
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_THAT(told(), IsEmpty());
}

}  // namespace
}  // namespace heddle
