// Random work for the tensor runtime by threads: thousands of schedules on devices of several
// kinds, and what the model notices. HEDDLE_TEST_SEED=N runs from that seed on, HEDDLE_TEST_WORKS=N
// until so many works were accepted.
#include "tools/stress/threaded_runtime.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>
#include <thread>

#include "heddle/observe.hpp"
#include "scheduler/sanitizers.hpp"
#include "tests/support/asynchronous_device.hpp"
#include "tests/support/seeds.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::AnyOf;
using testing::HasSubstr;

/// Own memory, and queues that run ahead, on threads of theirs.
void register_ahead() {
  static const bool registered = [] {
    register_backend({"ahead_cc", "cc", sched::Mode::threaded, [] {
                        AsynchronousOptions peers;
                        peers.is_peer = true;
                        return std::vector<std::shared_ptr<dev::PhysicalDevice>>{
                            std::make_shared<AsynchronousDevice>(peers),
                            std::make_shared<AsynchronousDevice>(peers),
                            std::make_shared<AsynchronousDevice>()};
                      }});
    return true;
  }();
  static_cast<void>(registered);
}

class ThreadedRuntimeTest : public testing::TestWithParam<std::string> {
 protected:
  ThreadedRuntimeTest() {
    register_ahead();
    set_log_hook([](LogLevel, std::string_view) {});  // failures are what this is about
    options.seed = test::from_environment("HEDDLE_TEST_SEED", 1);
    options.round_max = 60s;
  }
  ~ThreadedRuntimeTest() override { set_log_hook({}); }
  [[nodiscard]] stress::ThreadedResult run(const std::string& backend) const {
    stress::ThreadedResult result = stress::run_threaded(Backend::open(backend), options);
    if (result.stuck) {  // what is stuck cannot be waited for
      std::printf("seed %llu: %s\n", static_cast<unsigned long long>(result.last_seed),
                  result.broken.c_str());
      std::fflush(nullptr);
      std::_Exit(1);
    }
    return result;
  }
  stress::ThreadedOptions options;
};
INSTANTIATE_TEST_SUITE_P(Backends, ThreadedRuntimeTest,
                         testing::Values("cc", "sync_cc", "pooled_cc", "ahead_cc"),
                         [](const auto& backend) { return backend.param; });

// D2, D5 to D10, D13, D16, D17, S15: hosts on threads that link, copy, stream, merge, donate,
// replay, finalise, fail, cancel and recover: all ends, and reads see what an interpreter of the
// same calls, one by one, makes of them; 12,000 schedules and transfers
TEST_P(ThreadedRuntimeTest, RandomWorkHoldsWhatItMust) {
  options.works_max = test::from_environment("HEDDLE_TEST_WORKS", 6000 / test::slower);
  const stress::ThreadedResult result = run(GetParam());
  EXPECT_EQ(result.broken, "") << "seed " << result.last_seed;
  EXPECT_GE(result.works(), options.works_max);
  for (const auto& [what, times] : result.seen)
    EXPECT_TRUE(times > 0 || options.works_max < 6000) << what;
  std::printf("%s\n", result.to_string().c_str());
}

#ifndef HEDDLE_TSAN  // which finds the data races that are planted
// D9: a wait that is missing is noticed
TEST_F(ThreadedRuntimeTest, MissingWaitsAreFound) {
  options.planted = stress::Planted::no_waits;
  options.length = 60s;
  const stress::ThreadedResult result = run("cc");
  EXPECT_THAT(result.broken, AnyOf(HasSubstr("which must hold"), HasSubstr("was not written by")));
  EXPECT_EQ(result.last_seed, options.seed + result.rounds - 1);
}
#endif

// It has as many hosts and devices as it is told, and says how memory grew
TEST_F(ThreadedRuntimeTest, DoesAsItIsTold) {
  options.hosts = 1;
  options.devices = 9;
  options.length = 2s;
  options.warm = 0s;
  int lines = 0;
  options.progress = [&](std::string_view line) {
    ++lines;
    EXPECT_THAT(std::string(line), AllOf(HasSubstr("works in"), HasSubstr("MiB")));
  };
  const stress::ThreadedResult result = run("sync_cc");
  EXPECT_EQ(result.broken, "") << "seed " << result.last_seed;
  EXPECT_GE(lines, 1);
  for (const auto& [what, times] : result.seen) {
    if (what == std::string_view("hosts")) {
      EXPECT_EQ(times, result.rounds);
    }
    if (what == std::string_view("devices")) {
      EXPECT_GE(times, 9 * result.rounds);
    }
  }
  EXPECT_GT(result.warm_bytes, 0u);
  EXPECT_THAT(result.to_string(), AllOf(HasSubstr("when warm"), HasSubstr("at the end ("),
                                        HasSubstr("works accepted")));
}

}  // namespace
}  // namespace heddle
