// Long chains: of causes, callbacks, signals and devices. None nests as deep as it is long, and
// none takes more than linear time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "tests/support/seeds.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::ExternalTimeline;
using sched::Mode;
using sched::TaskDevice;
using testing::AllOf;
using testing::HasSubstr;

constexpr std::size_t text_max = 4096;

class ChainsTest : public DeviceTest {
 protected:
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  void expect_soon() const { EXPECT_LT(std::chrono::steady_clock::now() - start_, 20s); }
};
HEDDLE_DEVICE_SUITE(ChainsTest);

// S25: each task comes after the one before, which failed, and is contained
TEST_P(ChainsTest, TwentyThousandContainedFailures) {
  constexpr int count = 20'000;
  const TaskDevice device = open("work");
  sched::SubmitOptions contain;
  contain.contain = true;
  std::vector<Event> events{
      device.submit("first", [] { throw std::runtime_error("the root"); }, contain)};
  while (events.size() < count) {
    contain.after = {events.back()};
    events.push_back(device.submit("link", [] { ADD_FAILURE() << "ran"; }, contain));
  }
  EXPECT_TRUE(device.await().ok());
  EXPECT_EQ(events[1].wait().code(), ErrorCode::device_failed);
  for (std::size_t k = count - 1000; k < count; ++k) {  // those whose text is kept
    const Status end = events[k].wait();
    ASSERT_EQ(end.root().message(), "the root") << k;
    ASSERT_THAT(text(end), AllOf(HasSubstr("'link'"), HasSubstr("the root")));
    ASSERT_LT(text(end).size(), text_max);
  }
  expect_soon();
}

// S25: the same across devices, each poisoned by the one before
TEST_P(ChainsTest, ThousandPoisonedDevices) {
  std::vector<TaskDevice> devices{open("first")};
  Event before = devices[0].submit("fail", [] { throw std::runtime_error("the root"); });
  before.wait();
  for (int k = 0; k < 200; ++k) {
    devices.push_back(open("next"));
    devices.back().wait(before);
    devices.back().await();
    before = devices.back().submit("refused", [] {});
    ASSERT_FALSE(before.accepted());
    ASSERT_LT(text(before.status()).size(), text_max) << k;
    ASSERT_THAT(text(before.status()), HasSubstr("the root"));
  }
  expect_soon();
}

// S7, S25: callbacks that each add the next to an event that is done
TEST_P(ChainsTest, HundredThousandCallbacksOfDoneEvents) {
  constexpr int count = 100'000;
  const TaskDevice device = open("work");
  const Event done = device.submit("task", [] {});
  EXPECT_TRUE(done.wait().ok());
  int called = 0;
  const std::function<void(const Status&)> next = [&](const Status&) {
    if (++called < count) done.then(next);
  };
  done.then(next);
  EXPECT_EQ(called, count);
  called = 0;
  const Event inside = device.submit("inside", [&] { done.then(next); });
  EXPECT_TRUE(inside.wait().ok());
  EXPECT_EQ(called, count);
  expect_soon();
}

// S25: a callback deep within others that waits does not wait for what was put off behind it
TEST_P(ChainsTest, WaitsRunWhatWasPutOff) {
  const TaskDevice device = open("work");
  ExternalTimeline gate("gate");
  const Event opened = gate.next();
  int depth = 0;
  Status waited(ErrorCode::internal, "not called");
  const std::function<void(const Status&)> nest = [&](const Status&) {
    if (++depth < 100) return Event().then(nest);
    Event().then([&](const Status&) { EXPECT_TRUE(gate.signal(1).ok()); });
    waited = opened.wait_for(60s);
  };
  EXPECT_TRUE(device.submit("task", [&] { Event().then(nest); }).wait().ok());
  EXPECT_TRUE(waited.ok()) << text(waited);
  expect_soon();
}

// S7, S25: a user's callback may wait for what comes after the very event that it is called for
TEST_P(ChainsTest, CallbacksHoldNoWaiterUp) {
  const TaskDevice first = open("first"), second = open("second");
  ExternalTimeline gate("gate");
  first.wait(gate.next());
  const Event task = first.submit("task", [] {});
  std::atomic<ErrorCode> seen{ErrorCode::internal};
  Event after;
  task.then([&](const Status&) { seen = after.wait_for(60s).code(); });
  second.wait(task);
  after = second.submit("after", [] {});
  EXPECT_TRUE(gate.signal(1).ok());
  EXPECT_TRUE(first.await().ok());
  EXPECT_TRUE(second.await().ok());
  while (seen == ErrorCode::internal) {  // callbacks come after the end
    run_ready();
    std::this_thread::yield();
  }
  EXPECT_EQ(seen, ErrorCode::ok);
  expect_soon();
}

/// Says nothing.
struct Silent : std::exception {
  [[nodiscard]] const char* what() const noexcept override { return nullptr; }
};

// S10: an exception whose what() is null fails its task, or goes to the log, as any other
TEST_P(ChainsTest, ExceptionsMaySayNothing) {
  const TaskDevice device = open("work");
  const Status end = device.submit("silent", [] { throw Silent(); }).wait();
  EXPECT_EQ(end.code(), ErrorCode::device_failed);
  EXPECT_THAT(text(end), AllOf(HasSubstr("'silent'"), HasSubstr("what() is null")));
  EXPECT_THROW(std::rethrow_exception(end.exception()), Silent);
  std::vector<std::string> lines;
  set_log_hook([&](LogLevel, std::string_view line) { lines.emplace_back(line); });
  Event().then([](const Status&) { throw Silent(); });
  set_log_hook({});
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_THAT(lines[0], HasSubstr("what() is null"));
}

// S10: an Error without a failure in it fails its task all the same
TEST_P(ChainsTest, AnErrorThatIsOkIsAFailure) {
  const TaskDevice device = open("work");
  EXPECT_EQ(device.submit("odd", [] { throw Error(Status()); }).wait().code(),
            ErrorCode::device_failed);
}

// S25: tasks of inline devices that each submit the next one's
TEST(InlineChainTest, TasksThatSubmitTheNext) {
  // Opening a device takes long under sanitizers.
  constexpr std::size_t count = 100'000 / (test::slower > 1 ? 20 : 1);
  const auto start = std::chrono::steady_clock::now();
  Scheduler scheduler;
  sched::DeviceOptions options;
  options.mode = Mode::inline_;
  options.queue_size = 1;
  std::vector<std::optional<TaskDevice>> devices(count);
  std::size_t ran = 0;
  const std::function<void()> step = [&] {
    const std::size_t mine = ran++;
    if (mine >= 100) devices[mine - 100].reset();  // its task has ended, or its end is near
    if (ran == count) return;
    devices[ran] = scheduler.new_device(options);
    devices[ran]->submit("link", std::ref(step));
  };
  devices[0] = scheduler.new_device(options);
  devices[0]->submit("link", std::ref(step));
  EXPECT_EQ(ran, count);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

// S20, S25: callbacks that each signal the next ticket
TEST(ExternalChainTest, HundredThousandSignals) {
  constexpr std::uint64_t count = 100'000;
  ExternalTimeline stream("stream");
  std::uint64_t called = 0;
  for (std::uint64_t k = 0; k < count; ++k) {
    stream.next().then([&](const Status&) {
      if (++called < count) {
        EXPECT_TRUE(stream.signal(called + 1).ok());
      }
    });
  }
  EXPECT_TRUE(stream.signal(1).ok());
  EXPECT_EQ(called, count);
}

Status chain_of(std::size_t causes) {
  Status status(ErrorCode::exhausted, "the root");
  for (std::size_t k = 0; k < causes; ++k)
    status = Status(ErrorCode::device_failed, "link " + std::to_string(k), std::move(status));
  return status;
}

// S25: causes of causes
TEST(StatusChainTest, MillionCauses) {
  constexpr std::size_t count = 1'000'000 / test::slower;
  const auto start = std::chrono::steady_clock::now();
  const Status one = chain_of(count);
  {
    const Status other = chain_of(count);
    EXPECT_EQ(one, other);
    EXPECT_NE(one, other.cause());
  }
  EXPECT_EQ(one.causes(), count);
  EXPECT_EQ(one.root().message(), "the root");
  EXPECT_EQ(one.root(), one.root().root());
  std::string expected = "device_failed: link " + std::to_string(count - 1);
  for (std::size_t k = 2; k < 8; ++k)
    expected += "\n  cause: device_failed: link " + std::to_string(count - k);
  expected += "\n  ... " + std::to_string(count - 7) + " more causes ...";
  expected += "\n  cause: exhausted: the root";
  EXPECT_EQ(one.to_string(), expected);
  EXPECT_LT(std::string(Error(one).what()).size(), text_max);
  EXPECT_LT(std::chrono::steady_clock::now() - start, 60s);
}

// S25: short chains have all their causes in their text
TEST(StatusChainTest, FewCausesAreAllInTheText) {
  const auto lines = [](const Status& status) {
    const std::string all = status.to_string();
    return std::ranges::count(all, '\n') + 1;
  };
  for (std::size_t causes = 0; causes < 9; ++causes) {
    EXPECT_EQ(lines(chain_of(causes)), static_cast<std::ptrdiff_t>(causes) + 1);
    EXPECT_THAT(chain_of(causes).to_string(), testing::EndsWith("exhausted: the root"));
  }
  EXPECT_EQ(lines(chain_of(9)), 9);
  EXPECT_THAT(chain_of(9).to_string(), HasSubstr("... 2 more causes ..."));
}

// S25: failures that are rethrown again and again: each exception holds the one before
TEST(StatusChainTest, HundredThousandExceptions) {
  Status status(ErrorCode::internal, "the root");
  for (int k = 0; k < 100'000; ++k) {
    try {
      throw Error(status);
    } catch (const Error& error) {
      status = Status(ErrorCode::device_failed, "rethrown", error.status())
                   .with_exception(std::current_exception());
    }
  }
  EXPECT_EQ(status.root().message(), "the root");
}

}  // namespace
}  // namespace heddle
