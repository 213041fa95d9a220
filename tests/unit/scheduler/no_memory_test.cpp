// Failures, refusals and log lines while there is no memory to say them in.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "tests/unit/scheduler/allocations.hpp"
#include "tests/unit/scheduler/device_fixture.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using sched::FullPolicy;
using sched::Mode;
using sched::TaskDevice;
using testing::ElementsAre;

/// Tasks run where they are polled for: on the thread that has no memory.
class NoMemoryTest : public testing::Test {
 protected:
  TaskDevice open(std::uint32_t capacity = 64) {
    sched::DeviceOptions options;
    options.name = "a device whose name is longer than a string holds in itself";
    options.mode = Mode::manual;
    options.queue_size = capacity;
    return scheduler_.new_device(options);
  }
  /// Calls it with codes_, without memory; nothing may be expected in there.
  template <class Body>
  void run(const Body& body) {
    codes_.reserve(16);
    const NoMemory none;
    body(codes_);
  }
  Scheduler scheduler_;
  std::vector<ErrorCode> codes_;
};

// S10: the code of a failure needs no memory
TEST_F(NoMemoryTest, FailuresAndWhatComesAfterKeepTheirCodes) {
  const TaskDevice device = open(), other = open();
  const Event thrown = device.submit("throws", [] { throw std::runtime_error("an explanation"); });
  const Event skipped = device.submit("later", [] { ADD_FAILURE() << "ran"; });
  sched::SubmitOptions after;
  after.after = {thrown};
  const Event behind = other.submit("behind", [] { ADD_FAILURE() << "ran"; }, after);
  run([&](auto& codes) {
    scheduler_.poll();
    for (const Event* event : {&thrown, &skipped, &behind}) codes.push_back(event->status().code());
    codes.push_back(device.submit("refused", [] {}).status().code());
    codes.push_back(device.recover().code());
    codes.push_back(device.status().code());
  });
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::device_failed, ErrorCode::device_failed,
                                  ErrorCode::device_failed, ErrorCode::device_failed, ErrorCode::ok,
                                  ErrorCode::ok));
  EXPECT_EQ(thrown.status().message(), "out of memory");
  EXPECT_TRUE(other.status().ok());
}

// S4, S6, S12: nor does a refusal's
TEST_F(NoMemoryTest, RefusalsKeepTheirCodes) {
  const TaskDevice device = open(2), behind = open();
  const Event first = device.submit("first", [] {}), second = device.submit("second", [] {});
  sched::SubmitOptions fail;
  fail.full = FullPolicy::fail;
  run([&](auto& codes) {
    codes.push_back(device.submit("too many", [] {}, fail).status().code());
    codes.push_back(behind.wait(first).status().code());  // a list of what it waits for
    codes.push_back(first.wait_for(0ns).code());
    device.cancel_pending();
    scheduler_.poll();
    codes.push_back(first.status().code());
    codes.push_back(second.status().code());
    codes.push_back(device.shutdown(1s).code());
    codes.push_back(device.submit("late", [] {}).status().code());
  });
  EXPECT_THAT(codes_, ElementsAre(ErrorCode::exhausted, ErrorCode::exhausted, ErrorCode::deadline,
                                  ErrorCode::cancelled, ErrorCode::cancelled, ErrorCode::ok,
                                  ErrorCode::unavailable));
}

// S16: nor does that of a wait that could not end
TEST_F(NoMemoryTest, WaitsForItselfAreRefused) {
  const TaskDevice device = open();
  Event own;
  own = device.submit("waits for itself", [&] {
    run([&](auto& codes) {
      codes.push_back(own.wait().code());
      codes.push_back(device.await().code());
      codes.push_back(device.recover().code());
    });
  });
  scheduler_.poll();
  EXPECT_THAT(codes_, testing::Each(ErrorCode::failed_precondition));
  EXPECT_EQ(codes_.size(), 3);
}

// S21: a line for which there is no memory says so
TEST_F(NoMemoryTest, UnseenFailuresAreLoggedAllTheSame) {
  std::size_t lines = 0;
  set_log_hook([&](LogLevel /*level*/, std::string_view /*text*/) { ++lines; });
  std::optional<TaskDevice> device(open());
  device->submit("throws", [] { throw std::runtime_error("an explanation"); });
  scheduler_.poll();
  {
    const NoMemory none;
    device.reset();
  }
  set_log_hook({});
  EXPECT_EQ(lines, 1);
}

}  // namespace
}  // namespace heddle
