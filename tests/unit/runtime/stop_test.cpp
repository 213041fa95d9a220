// Kernels that run for minutes, told to stop through the API.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "heddle/heddle.hpp"
#include "heddle/status.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// On each CPU backend, a routine that would run for minutes.
class StopTest : public testing::TestWithParam<std::string> {
 protected:
  StopTest()
      : backend(Backend::open(GetParam())),
        device(backend.physical_device(0).new_virtual_device()) {
    const Tensor x("x", f64, {1'000'000}), s("s", f64, {100'000}), y("y", f64, {100'000});
    const Index i, j;
    Program minutes("minutes");
    minutes << (y(i) += sin(x(j) * s(i)));
    routine = Context(device).link(backend.compile(minutes));
  }

  /// Runs it here or on the device's worker, and calls `stop` once it runs. Its event.
  template <class F>
  Event run(const F& stop) {
    std::thread other([&] {
      while (device.timeline().snapshot().running.find("minutes") == std::string::npos)
        std::this_thread::sleep_for(1ms);
      std::this_thread::sleep_for(100ms);
      start = std::chrono::steady_clock::now();
      stop();
    });
    Event event = routine->schedule();
    event.wait();
    took = std::chrono::steady_clock::now() - start;
    other.join();
    return event;
  }

  Backend backend;
  Device device;
  std::optional<Routine> routine;
  std::chrono::steady_clock::time_point start;
  std::chrono::nanoseconds took{};
};

// S12, S15: cancel_pending() ends a kernel while it runs; the device goes on
TEST_P(StopTest, CancelPendingEndsARunningKernel) {
  const Event event = run([this] { device.cancel_pending(); });
  EXPECT_LT(took, 1min)
      << "milliseconds, on a machine that has nothing else to do; all of it, half an hour";
  EXPECT_EQ(event.status().code(), ErrorCode::cancelled);
  EXPECT_THAT(event.status().to_string(), HasSubstr("routine 'minutes'"));
  EXPECT_THAT(event.status().to_string(), HasSubstr(GetParam() + ":0.0"));
  EXPECT_THAT(event.status().to_string(), HasSubstr("incomplete"));
  const Event next = device.submit("next", [] {});
  next.wait();
  EXPECT_TRUE(next.status().ok()) << next.status().to_string();
}

// S13, D13: so does finalize() at its deadline
TEST_P(StopTest, FinalizeEndsARunningKernelAtItsDeadline) {
  const Event event = run([this] {
    try {
      device.finalize(300ms);
    } catch (const Error&) {  // it says that it was late
    }
  });
  EXPECT_GE(took, 250ms);
  EXPECT_LT(took, 1min);
  EXPECT_EQ(event.status().code(), ErrorCode::cancelled) << event.status().to_string();
}

INSTANTIATE_TEST_SUITE_P(Backends, StopTest,
                         testing::Values("cc", "gccjit", "sync_cc", "sync_gccjit", "pooled_cc",
                                         "pooled_gccjit"),
                         [](const auto& backend) { return backend.param; });

}  // namespace
}  // namespace heddle
