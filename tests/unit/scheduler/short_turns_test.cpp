// Tasks that never wait (TaskOps::never_waits) on inline devices: they run on the stack of their
// thread, and what calls code of the user follows on a fiber.
#include <functional>
#include <string>
#include <vector>

#include "scheduler/device/ticket_guard.hpp"
#include "scheduler/threads/task_context.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle::sched {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

using Body = std::function<Status()>;

constexpr TaskOps never_waiting{
    [](void* to, void* from) noexcept { *static_cast<Body**>(to) = static_cast<Body*>(from); },
    [](void* callable, Status& failure) {
      failure = (**static_cast<Body**>(callable))();
      return failure.ok();
    },
    [](void*) noexcept {},
    nullptr,
    nullptr,
    true};

class ShortTurnsTest : public testing::Test {
 protected:
  ShortTurnsTest() {
    device.submit("first", [] {});  // from here on this thread takes tickets alone
  }
  /// Publishes a task that never waits; `before`: called with its event before it runs.
  Event run(Body body, const std::function<void(const Event&)>& before = {}) {
    const PlainTicket ticket(device);
    EXPECT_TRUE(ticket);
    const Event event = ticket.event();
    if (before) before(event);
    Body* const where = &body;
    never_waiting.construct(ticket.place(), const_cast<Body*>(where));
    ticket.publish("short", never_waiting);
    return event;
  }

  static DeviceOptions options() {
    DeviceOptions inline_device;
    inline_device.name = "here";
    inline_device.mode = Mode::inline_;
    return inline_device;
  }
  Scheduler scheduler;
  const TaskDevice device = scheduler.new_device(options());
};

// S16: only tasks that may wait take a fiber
TEST_F(ShortTurnsTest, AreOnTheStackOfTheirThread) {
  bool short_has = true, other_has = false;
  EXPECT_TRUE(run([&] {
                short_has = current_task()->fiber != nullptr;
                EXPECT_EQ(this_task::label(), std::string("short"));
                return Status();
              }).done());
  device.submit("other", [&] { other_has = current_task()->fiber != nullptr; });
  EXPECT_FALSE(short_has);
  EXPECT_TRUE(other_has);
  EXPECT_EQ(current_task(), nullptr);
}

// S16, S23: a callback of such a task waits on a fiber: the submitter goes on
TEST_F(ShortTurnsTest, CallbacksMayWait) {
  ExternalTimeline gate("gate");
  const Event opened = gate.next();
  std::vector<std::string> order;
  run([] { return Status(); },
      [&](const Event& event) {
        event.then([&](const Status& how) {
          EXPECT_TRUE(how.ok());
          EXPECT_TRUE(opened.wait().ok());
          order.emplace_back("called back");
        });
      });
  order.emplace_back("submitted");
  EXPECT_TRUE(gate.signal(opened.ticket()).ok());
  EXPECT_THAT(order, ElementsAre("submitted", "called back"));
  EXPECT_TRUE(run([] { return Status(); }).done());
}

// S11: its failure is that of any task: what follows is skipped until the device recovers
TEST_F(ShortTurnsTest, FailuresAreThoseOfAnyTask) {
  int ran = 0;
  Status told;
  const Event failed = run(
      [&] {
        ++ran;
        return Status(ErrorCode::device_failed, "out of order");
      },
      [&](const Event& event) { event.then([&](const Status& how) { told = how; }); });
  EXPECT_THAT(text(failed.status()), HasSubstr("out of order"));
  EXPECT_THAT(text(told), HasSubstr("out of order"));
  EXPECT_FALSE(device.submit("after", [&] { ++ran; }).status().ok());
  EXPECT_FALSE(PlainTicket(device));
  EXPECT_TRUE(device.recover().ok());
  EXPECT_TRUE(device.submit("recovered", [&] { ++ran; }).status().ok());
  EXPECT_EQ(ran, 2);
}

// S3: tasks that come while it runs follow in the same turn
TEST_F(ShortTurnsTest, TasksThatComeMeanwhileFollow) {
  std::vector<std::string> order;
  Event next;
  run([&] {
    next = device.submit("next", [&] { order.emplace_back("next"); });
    order.emplace_back("short");
    return Status();
  });
  EXPECT_TRUE(next.done());
  EXPECT_THAT(order, ElementsAre("short", "next"));
}

}  // namespace
}  // namespace heddle::sched
