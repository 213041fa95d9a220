// Tasks of inline devices that wait: they are suspended, and go on where their wait ends (S16).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <exception>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::ExternalTimeline;
using sched::Mode;
using sched::TaskDevice;
using testing::ElementsAre;
using testing::HasSubstr;

class FiberTest : public testing::Test {
 protected:
  TaskDevice open(std::string name, Mode mode = Mode::inline_) {
    sched::DeviceOptions options;
    options.name = std::move(name);
    options.mode = mode;
    return scheduler_.new_device(options);
  }
  Scheduler scheduler_;
};

TEST_F(FiberTest, WaitingTaskLetsItsCallerGoOn) {
  const TaskDevice device = open("work");
  ExternalTimeline host("host");
  const Event later = host.next();
  std::vector<std::string> order;
  const Event waiting = device.submit("waits", [&] {
    order.emplace_back("before");
    EXPECT_TRUE(this_task::await(later).ok());
    EXPECT_STREQ(this_task::label(), "waits");
    order.emplace_back("after");
  });
  order.emplace_back("caller");
  const Event next = device.submit("next", [&] { order.emplace_back("next"); });
  EXPECT_FALSE(waiting.done());
  EXPECT_FALSE(next.done());
  EXPECT_FALSE(this_task::running());
  EXPECT_THAT(device.snapshot().waiting_for, HasSubstr("host#1"));
  EXPECT_EQ(device.snapshot().running, "waits");

  EXPECT_TRUE(host.signal(later.ticket()).ok());  // goes on here
  EXPECT_TRUE(waiting.done());
  EXPECT_TRUE(next.done());
  EXPECT_THAT(order, ElementsAre("before", "caller", "after", "next"));
  EXPECT_EQ(device.snapshot().waiting_for, "");
}

TEST_F(FiberTest, GoesOnInTheThreadThatEndsTheWait) {
  const TaskDevice device = open("work");
  const TaskDevice other = open("other", Mode::threaded);
  ExternalTimeline gate("gate");
  const Event open_gate = gate.next();
  other.wait(open_gate);
  const Event far = other.submit("far", [] {});
  std::thread::id where;
  const Event waiting = device.submit("waits", [&] {
    EXPECT_TRUE(this_task::await(far).ok());
    where = std::this_thread::get_id();
  });
  EXPECT_FALSE(waiting.done());
  EXPECT_TRUE(gate.signal(open_gate.ticket()).ok());
  EXPECT_TRUE(waiting.wait().ok());
  EXPECT_NE(where, std::this_thread::get_id());
}

TEST_F(FiberTest, WaitsNestAcrossInlineDevices) {
  const TaskDevice a = open("a"), b = open("b");
  ExternalTimeline host("host");
  const Event later = host.next();
  std::vector<std::string> order;
  const Event outer = a.submit("outer", [&] {
    const Event inner = b.submit("inner", [&] {
      EXPECT_TRUE(this_task::await(later).ok());
      order.emplace_back("inner");
    });
    order.emplace_back("outer goes on");
    EXPECT_TRUE(this_task::await(inner).ok());
    EXPECT_STREQ(this_task::label(), "outer");
    order.emplace_back("outer");
  });
  order.emplace_back("caller");
  EXPECT_TRUE(host.signal(later.ticket()).ok());
  EXPECT_TRUE(outer.done());
  EXPECT_THAT(order, ElementsAre("outer goes on", "caller", "inner", "outer"));
}

// A task may await inside a catch block: what it handles stays its own.
TEST_F(FiberTest, ExceptionsBelongToTheirTask) {
  const TaskDevice a = open("a"), b = open("b");
  ExternalTimeline host("host");
  const Event first = host.next(), second = host.next();
  const auto task = [](const char* name, const Event& event) {
    return [name, event] {
      try {
        throw std::runtime_error(name);
      } catch (const std::runtime_error&) {
        EXPECT_TRUE(this_task::await(event).ok());
        try {
          throw;
        } catch (const std::runtime_error& again) {
          EXPECT_STREQ(again.what(), name);
        }
      }
      EXPECT_EQ(std::current_exception(), nullptr);
    };
  };
  const Event ends[] = {a.submit("a", task("a", first)), b.submit("b", task("b", second))};
  EXPECT_EQ(std::current_exception(), nullptr);
  try {
    throw std::logic_error("the caller's");
  } catch (const std::logic_error&) {
    EXPECT_TRUE(host.signal(first.ticket()).ok());
    EXPECT_TRUE(host.signal(second.ticket()).ok());
    try {
      throw;
    } catch (const std::logic_error& mine) {
      EXPECT_STREQ(mine.what(), "the caller's");
    }
  }
  for (const Event& end : ends) EXPECT_TRUE(end.done() && end.status().ok()) << text(end.status());
}

TEST_F(FiberTest, FailedWaitsTellTheTask) {
  const TaskDevice device = open("work");
  ExternalTimeline host("host");
  const Event later = host.next();
  Status seen;
  const Event end = device.submit("waits", [&] { seen = this_task::await(later); });
  EXPECT_TRUE(host.signal(later.ticket(), Status(ErrorCode::device_failed, "the wire broke")).ok());
  EXPECT_TRUE(end.done());
  EXPECT_THAT(text(seen), HasSubstr("the wire broke"));
}

TEST_F(FiberTest, SuspendedTaskCanBeCancelled) {
  const TaskDevice device = open("work");
  ExternalTimeline host("host");
  const Event never = host.next();
  Status seen;
  const Event end = device.submit("waits", [&] {
    seen = this_task::await(never);
    return seen;
  });
  const Event queued = device.submit("queued", [] { ADD_FAILURE() << "ran"; });
  device.cancel_pending();
  EXPECT_TRUE(end.done());
  EXPECT_EQ(seen.code(), ErrorCode::cancelled);
  EXPECT_EQ(end.status().code(), ErrorCode::cancelled);
  EXPECT_EQ(queued.status().code(), ErrorCode::cancelled);
  EXPECT_TRUE(device.submit("next", [] {}).wait().ok());
}

TEST_F(FiberTest, ShutdownEndsASuspendedTask) {
  const TaskDevice device = open("work");
  ExternalTimeline host("host");
  const Event never = host.next();
  const Event end = device.submit("waits", [&] { return this_task::await(never); });
  EXPECT_TRUE(device.shutdown(1ms).ok());
  EXPECT_TRUE(end.done());
  EXPECT_EQ(end.status().code(), ErrorCode::cancelled);
}

TEST_F(FiberTest, LastHandleMayGoWhileATaskIsSuspended) {
  std::optional<ExternalTimeline> host("host");
  const Event later = host->next();
  Event end;
  {
    sched::DeviceOptions options;
    options.name = "short-lived";
    options.mode = Mode::inline_;
    options.drain_max = 1ms;
    const TaskDevice device = scheduler_.new_device(options);
    end = device.submit("waits", [&] { return this_task::await(later); });
  }
  EXPECT_TRUE(end.done());
  EXPECT_EQ(end.status().code(), ErrorCode::cancelled);
}

TEST_F(FiberTest, WaitingForItselfIsStillRefused) {
  const TaskDevice device = open("work");
  Status seen;
  std::optional<TaskDevice> captured = device;
  device.submit("selfish", [&] {
    const Event later = captured->submit("later", [] {});
    seen = this_task::await(later);
  });
  EXPECT_EQ(seen.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(text(seen), HasSubstr("'selfish'"));
}

// Many at once: their stacks are virtual memory of which only touched pages count.
TEST_F(FiberTest, ManyTasksMayBeSuspended) {
  constexpr int count = 300;
  ExternalTimeline host("host");
  const Event later = host.next();
  std::vector<TaskDevice> devices;
  int gone_on = 0;
  for (int k = 0; k < count; ++k) {
    devices.push_back(open("work"));
    devices.back().submit("waits", [&] {
      EXPECT_TRUE(this_task::await(later).ok());
      ++gone_on;
    });
  }
  EXPECT_EQ(gone_on, 0);
  EXPECT_TRUE(host.signal(later.ticket()).ok());
  EXPECT_EQ(gone_on, count);
}

// Threads pass tasks to each other: every wait ends in another thread than it began in.
TEST_F(FiberTest, FibersMayChangeThreadsOften) {
  constexpr int rounds = 2000;
  const TaskDevice device = open("work");
  ExternalTimeline pings("pings");
  std::atomic<std::uint64_t> wanted{0};
  int sum = 0;  // written by the task alone, whatever thread it is in
  std::thread signaller([&] {
    for (std::uint64_t sent = 0; sent < rounds;) {
      if (wanted.load() > sent) {
        EXPECT_TRUE(pings.signal(++sent).ok());
      } else {
        std::this_thread::yield();
      }
    }
  });
  Event last;
  for (int k = 0; k < rounds; ++k) {
    const Event ping = pings.next();
    last = device.submit("waits", [&sum, ping] {
      const Status end = this_task::await(ping);
      EXPECT_TRUE(end.ok());
      ++sum;
    });
    wanted.store(ping.ticket());
  }
  EXPECT_TRUE(last.wait().ok());
  signaller.join();
  EXPECT_EQ(sum, rounds);
  EXPECT_EQ(device.counters().done, static_cast<std::uint64_t>(rounds));
}

}  // namespace
}  // namespace heddle
