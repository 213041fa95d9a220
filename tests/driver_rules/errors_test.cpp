// Rules of errors: those that stay with a context, and those that do not. A context with an error
// is of no use, so such tests run in a process of their own.
#include <atomic>
#include <cstdlib>
#include <functional>

#include "tests/driver_rules/rules_fixture.hpp"

namespace heddle::driver_rules {
namespace {

class ErrorRulesTest : public RulesTest {
 protected:
  ErrorRulesTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }

  /// The error of a kernel that failed.
  [[nodiscard]] Result after_a_trap(const Work& work) const {
    work.launch("trap", {0});
    const Result result = driver.stream_synchronize(work.stream());
    EXPECT_NE(result, success);
    return result;
  }
  /// Ends the process, without what a context with an error refuses.
  [[noreturn]] static void leave() { std::_Exit(HasFailure() ? 1 : 0); }
};

// Execution Control, cuLaunchHostFunc: "The function will be called after currently enqueued work
// and will block work added after it."
TEST_F(ErrorRulesTest, HostFunctionsAreInOrder) {
  struct Seen {
    const HostNumber number;
    std::atomic<std::int64_t> then = -1;
  } seen;
  const Work work;
  work.launch("add", {seen.number.address(), 1});
  EXPECT_CUDA(cuda.host_function(
      work.stream(),
      [](void* argument) {
        auto& told = *static_cast<Seen*>(argument);
        told.then = told.number.value();
        told.number.value() = 10;
      },
      &seen));
  work.launch("scale", {seen.number.address(), 3});
  work.synchronize();
  EXPECT_EQ(seen.then, 1);
  EXPECT_EQ(seen.number.value(), 30);
}

// Data types, CUresult, CUDA_ERROR_LAUNCH_FAILED and the like: "This leaves the process in an
// inconsistent state and any further CUDA work will return the same error. To continue using CUDA,
// the process must be terminated and relaunched."
TEST_F(ErrorRulesTest, ErrorsOfKernelsStay) {
  const auto further_work_fails = [&] {
    const Work work, other;
    const GpuNumber x;
    const Mark recorded(other), never;
    recorded.synchronize();
    const Result error = after_a_trap(work);
    const auto fails_alike = [&](const char* call, Result result) {
      EXPECT_EQ(result, error) << call;
    };
    Address data = 0;
    DriverModule module = nullptr;
    std::uint64_t words[] = {x.address(), 1};
    std::size_t bytes = sizeof words;
    void* extra[] = {launch_buffer, words, launch_buffer_bytes, &bytes, launch_end};
    for (int round = 0; round < 2; ++round) {
      fails_alike("cuStreamSynchronize", driver.stream_synchronize(other.stream()));
      fails_alike("cuEventQuery", recorded.query());
      fails_alike("cuEventQuery, never recorded", never.query());
      fails_alike("cuEventRecord", driver.event_record(never.event(), other.stream()));
      fails_alike("cuStreamWaitEvent", driver.stream_wait(other.stream(), recorded.event(), 0));
      fails_alike("cuMemsetD8Async", driver.fill(x.address(), 0, 8, other.stream()));
      fails_alike("cuMemcpyAsync", driver.copy(x.address(), x.address(), 8, other.stream()));
      fails_alike("cuMemAllocFromPoolAsync", driver.allocate(&data, 8, gpu.pool, other.stream()));
      fails_alike("cuModuleLoadDataEx",
                  driver.module_load(&module, cuda.image.data(), 0, nullptr, nullptr));
      fails_alike("cuLaunchKernel", driver.launch(gpu.kernels.at("add"), 1, 1, 1, 1, 1, 1, 0,
                                                  other.stream(), nullptr, extra));
    }
    leave();
  };
  EXPECT_EXIT(further_work_fails(), testing::ExitedWithCode(0), "");
}

// Execution Control, cuLaunchHostFunc: "Note that, in contrast to cuStreamAddCallback, the function
// will not be called in the event of an error in the CUDA context."
TEST_F(ErrorRulesTest, HostFunctionsAreNotCalledAfterAnError) {
  const auto is_not_called = [&] {
    static std::atomic<bool> called = false;
    const Work work;
    work.launch("trap", {0});
    static_cast<void>(cuda.host_function(work.stream(), [](void*) { called = true; }, nullptr));
    EXPECT_NE(driver.stream_synchronize(work.stream()), success);
    EXPECT_FALSE(called);
    leave();
  };
  EXPECT_EXIT(is_not_called(), testing::ExitedWithCode(0), "");
}

// Context Management: an error is of its context; other contexts go on.
TEST_F(ErrorRulesTest, OtherDevicesGoOn) {
  NEEDS_TWO_GPUS();
  const auto other_goes_on = [&] {
    const Work work;
    static_cast<void>(after_a_trap(work));
    const OnGpu elsewhere(cuda.gpus[1]);
    const Work there(stream_non_blocking, cuda.gpus[1]);
    const GpuNumber x(1, cuda.gpus[1]);
    there.launch("add", {x.address(), 1});
    there.synchronize();
    EXPECT_EQ(x.value(), 2);
    leave();
  };
  EXPECT_EXIT(other_goes_on(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace heddle::driver_rules
