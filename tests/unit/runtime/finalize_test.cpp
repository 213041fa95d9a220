// Finalising what is in the middle of a task.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "heddle/heddle.hpp"
#include "heddle/observe.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/logged.hpp"
#include "tests/support/threads.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

/// On backends that have threads, of their devices or of a pool.
class TimedOutFinalizeTest : public testing::TestWithParam<const char*> {
 protected:
  [[nodiscard]] int told() const { return log_.count("has ended"); }

 private:
  const test::Logged log_;
};
INSTANTIATE_TEST_SUITE_P(Backends, TimedOutFinalizeTest, testing::Values("cc", "pooled_gccjit"),
                         [](const auto& backend) { return std::string(backend.param); });

// S13, D13: after a finalize() that timed out, all handles go at once; what the task uses lives
// until it ends, which is told once
TEST_P(TimedOutFinalizeTest, HandlesGoAtOnce) {
  for (const bool whole_backend : {false, true}) {
    const LiveThreads threads;
    const int told_before = told();
    const auto released = std::make_shared<std::atomic<bool>>(false);
    std::optional<Backend> backend = Backend::open(GetParam());
    std::optional<Device> device = backend->physical_device(0).new_virtual_device();
    const Tensor x("x", i32, {1000});
    Index i;
    Program p("inc");
    p << (x(i) += 1);
    std::optional<Routine> run = Context(*device).link(backend->compile(p));
    run->schedule();
    device->await();
    std::latch begun(1);
    device->submit("long", [released, &begun] {
      begun.count_down();
      while (!released->load()) std::this_thread::sleep_for(1ms);
    });
    begun.wait();
    const Event queued = run->schedule();
    const Status status =
        failure([&] { whole_backend ? backend->finalize(30ms) : device->finalize(30ms); });
    EXPECT_EQ(status.code(), ErrorCode::deadline);
    EXPECT_THAT(status.to_string(), HasSubstr("'long'"));
    const auto start = std::chrono::steady_clock::now();
    run.reset();
    device.reset();
    backend.reset();
    EXPECT_LT(std::chrono::steady_clock::now() - start, 10s);  // drain_max is a minute
    EXPECT_EQ(told(), told_before);
    EXPECT_EQ(released.use_count(), 2);
    released->store(true);
    EXPECT_EQ(queued.wait().code(), ErrorCode::cancelled);
    EXPECT_TRUE(threads.others_end());
    EXPECT_EQ(released.use_count(), 1);
    EXPECT_EQ(told(), told_before + 1);
  }
}

}  // namespace
}  // namespace heddle
