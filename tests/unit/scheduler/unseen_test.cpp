// Failures that nobody asked for: the log tells each of them once, however its device ends.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "heddle/simulation.hpp"
#include "tests/support/logged.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::Mode;
using sched::TaskDevice;
using testing::HasSubstr;

constexpr int rounds = 50;

class UnseenTest : public DeviceTest {
 protected:
  /// Until `holds`, as a host of manual devices waits; without asking for any status.
  void wait_until(const std::function<bool()>& holds) {
    const auto deadline = std::chrono::steady_clock::now() + 60s;
    while (!holds() && std::chrono::steady_clock::now() < deadline) {
      run_ready();
      std::this_thread::sleep_for(100us);
    }
    EXPECT_TRUE(holds());
  }
  /// A device on which a task has failed, and nobody has asked.
  TaskDevice failed(const std::string& why) {
    TaskDevice device = open("work");
    const Event event = device.submit("fail", [why] { throw std::runtime_error(why); });
    wait_until([&] { return event.done(); });
    return device;
  }
  static std::string name(int round) { return "unseen " + std::to_string(round) + "."; }

  test::Logged log_;
};
HEDDLE_DEVICE_SUITE(UnseenTest);

// S10, S13: a task that fails while its device closes
TEST_P(UnseenTest, FailureWhileTheDeviceCloses) {
  for (int round = 0; round < rounds; ++round) {
    open("work").submit("fail", [round] {
      std::this_thread::sleep_for(200us);
      throw std::runtime_error(name(round));
    });
    const auto lines = log_.with(name(round));
    ASSERT_EQ(lines.size(), 1u) << "round " << round;
    EXPECT_THAT(lines[0], testing::AllOf(HasSubstr("'work'"), HasSubstr("'fail'")));
  }
}

// S10, S13: the last handle goes inside the task that then fails
TEST_P(UnseenTest, FailureAfterTheLastHandleWentInside) {
  for (int round = 0; round < rounds; ++round) {
    auto device = std::make_unique<TaskDevice>(open("work"));
    TaskDevice* const raw = device.get();
    raw->submit("fail", [round, device = std::move(device)]() mutable {
      device.reset();
      throw std::runtime_error(name(round));
    });
    wait_until([&] { return !log_.with(name(round)).empty(); });
  }
  for (int round = 0; round < rounds; ++round) EXPECT_EQ(log_.with(name(round)).size(), 1u);
}

// S10, S13: in a shutdown, after which nobody asks
TEST_P(UnseenTest, FailureInAShutdown) {
  for (int round = 0; round < rounds; ++round) {
    {
      const TaskDevice device = open("work");
      device.submit("fail", [round] {
        std::this_thread::sleep_for(200us);
        throw std::runtime_error(name(round));
      });
      EXPECT_TRUE(device.shutdown(60s).ok());
      ASSERT_EQ(log_.with(name(round)).size(), 1u) << "round " << round;
    }
    ASSERT_EQ(log_.with(name(round)).size(), 1u) << "round " << round;
  }
}

// S10, S11: a failure that recover() clears
TEST_P(UnseenTest, FailureThatRecoverClears) {
  const TaskDevice device = open("work");
  for (int round = 0; round < rounds; ++round) {
    const Event event = device.submit("fail", [round] { throw std::runtime_error(name(round)); });
    wait_until([&] { return event.done(); });
    EXPECT_TRUE(device.recover().ok());
    ASSERT_EQ(log_.with(name(round)).size(), 1u) << "round " << round;
  }
  EXPECT_TRUE(device.submit("next", [] {}).wait().ok());
}

// S10: submissions that were refused, and that nobody looks at, tell nobody
TEST_P(UnseenTest, FailureThatOnlyRefusedSubmissionsMet) {
  {
    const TaskDevice device = failed("unseen");
    for (int k = 0; k < 3; ++k) device.submit("refused", [] {});
  }
  EXPECT_EQ(log_.with("unseen").size(), 1u);
}

// S10: failures that were contained, with all that came after them, in one line
TEST_P(UnseenTest, ContainedFailures) {
  {
    const TaskDevice device = open("work");
    sched::SubmitOptions contain;
    contain.contain = true;
    for (int k = 0; k < 5; ++k)
      contain.after = {device.submit("fail", [] { throw std::runtime_error("unseen"); }, contain)};
    contain.after.clear();
    device.submit("other", [] { throw std::runtime_error("another"); }, contain);
    EXPECT_TRUE(device.await().ok());
  }
  const auto lines = log_.with("unseen");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("nor for 1 more of 'work'"));
}

// S10: the first of thousands is told with all that it said
TEST_P(UnseenTest, FirstOfThousands) {
  {
    const TaskDevice device = open("work");
    sched::SubmitOptions contain;
    contain.contain = true;
    device.submit("first", [] { throw std::runtime_error("unseen"); }, contain);
    for (int k = 0; k < 3000; ++k)
      device.submit("later", [] { throw std::runtime_error("another"); }, contain);
    EXPECT_TRUE(device.await().ok());
  }
  const auto lines = log_.with("unseen");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::AllOf(HasSubstr("'first' (ticket 1)"), HasSubstr("nor for 3000")));
}

// S10: a failure that poisons another device is told as its cause
TEST_P(UnseenTest, FailureThatGoesOnToAnotherDevice) {
  {
    const TaskDevice first = failed("unseen");
    const TaskDevice second = open("second");
    second.wait(first.record());
    wait_until([&] { return second.is_idle(); });
  }
  const auto lines = log_.with("unseen");
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], testing::AllOf(HasSubstr("'second'"), HasSubstr("'work'")));
}

// S10: what somebody has seen is not told again
TEST_P(UnseenTest, SeenFailuresAreNotTold) {
  const std::pair<const char*, std::function<void(const TaskDevice&)>> ways[] = {
      {"await", [](const TaskDevice& device) { device.await(); }},
      {"status", [](const TaskDevice& device) { static_cast<void>(device.status()); }},
      {"event", [](const TaskDevice& device) { static_cast<void>(device.record().status()); }},
      {"wait", [](const TaskDevice& device) { device.record().wait(); }},
      {"callback", [](const TaskDevice& device) { device.record().then([](const Status&) {}); }},
      {"refusal",
       [](const TaskDevice& device) { static_cast<void>(device.submit("late", [] {}).status()); }},
  };
  for (const auto& [way, look] : ways) {
    look(failed(way));
    const TaskDevice recovered = failed(way);
    look(recovered);
    EXPECT_TRUE(recovered.recover().ok());
    EXPECT_EQ(log_.with(way).size(), 0u) << way;
  }
  {
    const TaskDevice device = open("work");
    sched::ExternalTimeline gate("gate");
    device.wait(gate.next());
    device.submit("fail", [] { throw std::runtime_error("of another"); });
    const Event skipped = device.submit("skipped", [] {});
    EXPECT_TRUE(gate.signal(1).ok());
    EXPECT_EQ(skipped.wait().code(), ErrorCode::device_failed);
  }
  EXPECT_EQ(log_.with("of another").size(), 0u);
}

// S10: to make something of an event that is not its status is not to see it
TEST_P(UnseenTest, LooksThatSeeNoStatus) {
  {
    const TaskDevice device = failed("unseen");
    const Event event = device.record();
    EXPECT_THAT(event.to_string(), HasSubstr("device_failed"));
    const FileDescriptor fd = event.fd();
    EXPECT_GE(fd.get(), 0);
  }
  EXPECT_EQ(log_.with("unseen").size(), 1u);
}

// S10, S13: at exit, of devices that are closed by static destructors, or never
TEST_P(UnseenTest, FailureAtProcessExit) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  for (const bool leaked : {false, true}) {
    const auto body = [&] {
      set_log_hook({});
      static std::optional<TaskDevice> kept;
      auto* const device = new TaskDevice(failed("unseen"));
      if (!leaked) {
        kept = std::move(*device);
        delete device;
      }
      std::exit(0);
    };
    const auto told_once = testing::Truly([](const std::string& text) {
      const std::size_t first = text.find("unseen");
      return first != std::string::npos && text.find("unseen", first + 1) == std::string::npos;
    });
    EXPECT_EXIT(body(), testing::ExitedWithCode(0), told_once) << "leaked: " << leaked;
  }
}

// S10, S13: a task that outlived its device's shutdown, and every handle
TEST(UnseenLateTest, FailureOfATaskThatWasLeftToEnd) {
  const test::Logged log;
  std::atomic<bool> begun{false}, go{false};
  {
    Scheduler scheduler;
    sched::DeviceOptions options;
    options.drain_max = 1ms;
    const TaskDevice device = scheduler.new_device(options);
    device.submit("fail", [&] {
      begun = true;
      while (!go) std::this_thread::sleep_for(100us);
      throw std::runtime_error("unseen");
    });
    while (!begun) std::this_thread::yield();
  }
  EXPECT_EQ(log.with("unseen").size(), 0u);
  go = true;
  const auto deadline = std::chrono::steady_clock::now() + 60s;
  while (log.with("unseen").empty() && std::chrono::steady_clock::now() < deadline)
    std::this_thread::sleep_for(100us);
  EXPECT_EQ(log.with("unseen").size(), 1u);
}

// S10, S13, S18: the same in a simulation, whichever way a device ends
TEST(UnseenSimulatedTest, FailuresAreToldOnce) {
  for (int round = 0; round < rounds; ++round) {
    const test::Logged log;
    SimulationOptions options;
    options.seed = static_cast<std::uint64_t>(round);
    options.faults = {};
    Simulation simulation(options);
    const auto fail = [](const char* why) { return [why] { throw std::runtime_error(why); }; };
    std::optional<TaskDevice> recovered;
    simulation.host("host", [&] {
      Scheduler& scheduler = simulation.scheduler();
      scheduler.new_device("closed").submit("fail", fail("closing"));
      auto inside = std::make_unique<TaskDevice>(scheduler.new_device("inside"));
      TaskDevice* const raw = inside.get();
      raw->submit("fail", [inside = std::move(inside)]() mutable {
        inside.reset();
        throw std::runtime_error("dropped");
      });
      const TaskDevice device = scheduler.new_device("shut down");
      device.submit("fail", fail("shutting down"));
      EXPECT_TRUE(device.shutdown(60s).ok());
      EXPECT_EQ(log.with("shutting down").size(), 1u);
      recovered = scheduler.new_device("recovered");
      const Event event = recovered->submit("fail", fail("cleared"));
      while (!event.done()) simulation.yield();
      EXPECT_TRUE(recovered->recover().ok());
      EXPECT_EQ(log.with("cleared").size(), 1u);
    });
    ASSERT_TRUE(simulation.run().status.ok());
    recovered.reset();
    for (const char* why : {"closing", "dropped", "shutting down", "cleared"})
      ASSERT_EQ(log.with(why).size(), 1u) << why << ", seed " << round;
  }
}

// S21: a level that is none is taken for the one that tells most
TEST(LogTest, LevelsThatAreNoneAreTrace) {
  const LogLevel before = log_level();
  const test::Logged told;
  set_log_level(LogLevel(99));
  EXPECT_EQ(log_level(), LogLevel::trace);
  set_log_level(LogLevel::info);
  log(LogLevel(99), "above");
  EXPECT_TRUE(told.with("above").empty());
  set_log_level(before);
}

}  // namespace
}  // namespace heddle
