// Faults of a GPU as a user of heddle meets them, on a stand-in for the driver that has them:
// memory that is not there, launches that fail, illegal addresses, GPUs that are lost, copies that
// take long, kernels that hang; and two GPUs with and without access to each other's memory.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <dlfcn.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

#include "heddle/heddle.hpp"
#include "tests/cuda_standin/standin.hpp"
#include "tests/support/failure.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temp_directory.hpp"

namespace heddle {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::Each;
using testing::HasSubstr;

constexpr int illegal_address = 700, launch_failed = 719, launch_timeout = 702,
              no_longer_there = 46;

/// Errors of a GPU stay with its driver: each test has a copy of the library.
class CudaFaultsTest : public testing::Test {
 protected:
  CudaFaultsTest() {
    std::filesystem::copy(test::cuda_standin, file_);
    library_ = ::dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
    gpu = static_cast<const cuda_standin::Controls*>(::dlsym(library_, "cuda_standin"));
  }
  ~CudaFaultsTest() override {
    gpu->reset();
    ::dlclose(library_);
  }
  [[nodiscard]] Backend open() const {
    BackendOptions options;
    options.name = "cuda";
    options.cuda_driver = file_;
    options.nvrtc = test::nvrtc_standin;
    options.cache = false;
    return Backend::open(options);
  }
  /// x += 1 on a device of the GPU, from 0 on.
  [[nodiscard]] Routine counter(const Backend& backend, int ordinal = 0) const {
    const Index i;
    Program program("count");
    program << (x(i) += 1);
    Routine routine = Context(backend.physical_device(ordinal).new_virtual_device())
                          .link(backend.compile(program));
    routine.context().write(x, std::vector<float>(100, 0));
    return routine;
  }
  [[nodiscard]] std::vector<float> values(const Routine& routine) const {
    return routine.context().read<float>(x);
  }

  const Tensor x{"x", f32, {100}};
  const cuda_standin::Controls* gpu = nullptr;

 private:
  const TempDirectory here_;
  const std::string file_ = (here_.path() / "libcuda.so.1").string();
  void* library_ = nullptr;
};

// D3, B4: memory that the GPU lacks is refused by name; the device and its contexts go on
TEST_F(CudaFaultsTest, MemoryMayBeExhausted) {
  gpu->look({.bytes = std::size_t{16} << 20});
  const Backend backend = open();
  const Routine count = counter(backend);
  const Device device = count.context().device();
  const ArrayType large{f32, {std::int64_t{5} << 19}};
  {
    const Buffer first = Buffer::allocate(device, large);
    const Status full = failure([&] { static_cast<void>(Buffer::allocate(device, large)); });
    EXPECT_EQ(full.code(), ErrorCode::exhausted);
    EXPECT_THAT(full.to_string(), HasSubstr("10485760 bytes"));
    EXPECT_TRUE(count.schedule().wait().ok());
  }
  device.await();
  EXPECT_EQ(Buffer::allocate(device, large).num_bytes(), std::size_t{10} << 20);
  EXPECT_THAT(values(count), Each(1));
}

// B4, S11: a launch that the driver refuses fails its routine by name; other devices of the GPU go
// on, and the device works again after recover()
TEST_F(CudaFaultsTest, LaunchesMayBeRefused) {
  const Backend backend = open();
  const Routine count = counter(backend), beside = counter(backend);
  count.context().device().await();
  gpu->fail("cuLaunchKernel", 0, 701);
  const Status refused = count.schedule().wait();
  EXPECT_EQ(refused.code(), ErrorCode::device_failed);
  EXPECT_THAT(refused.to_string(), AllOf(HasSubstr("count"), HasSubstr("cuLaunchKernel")));
  EXPECT_TRUE(beside.schedule().wait().ok());
  count.context().device().recover();
  count.context().write(x, std::vector<float>(100, 5));
  EXPECT_TRUE(count.schedule().wait().ok());
  EXPECT_THAT(values(count), Each(6));
  EXPECT_THAT(values(beside), Each(1));
}

// B4: an error that stays with a GPU ends all of its outstanding work with the driver's words and
// the oldest kernel, whichever error it is; work there is refused from then on; the other GPU goes
// on
TEST_F(CudaFaultsTest, GpusMayFailForGood) {
  for (const int error : {illegal_address, launch_failed, launch_timeout, no_longer_there}) {
    const Backend backend = open();
    const Routine count = counter(backend), beside = counter(backend),
                  elsewhere = counter(backend, 1);
    count.context().device().await();
    beside.context().device().await();
    gpu->hold(true);
    const Event first = count.schedule(), second = beside.schedule(), other = elsewhere.schedule();
    gpu->lose(0, error);
    for (const Event& each : {first, second}) {
      const Status lost = each.wait();
      EXPECT_EQ(lost.code(), ErrorCode::device_failed);
      EXPECT_THAT(lost.to_string(), HasSubstr("(" + std::to_string(error) + ")"));
    }
    gpu->hold(false);
    EXPECT_TRUE(other.wait().ok());
    EXPECT_THAT(values(elsewhere), Each(1));
    EXPECT_FALSE(failure([&] { static_cast<void>(counter(backend)); }).ok());
    EXPECT_FALSE(failure([&] { static_cast<void>(values(count)); }).ok());
    gpu->reset();  // so that memory can be given back
  }
}

// S11, B4: a lost GPU does not recover; with its last backend the error goes, unless something else
// keeps the GPU's context
TEST_F(CudaFaultsTest, GpusAreOpenedAnew) {
  for (const bool is_kept : {false, true}) {
    if (is_kept) gpu->keep_context(0, true);
    {
      const Backend backend = open();
      const Routine count = counter(backend), elsewhere = counter(backend, 1);
      count.context().device().await();
      gpu->lose(0, illegal_address);
      EXPECT_FALSE(count.schedule().wait().ok());
      for (int again = 0; again < 2; ++again) {
        const Status status = failure([&] { count.context().device().recover(); });
        EXPECT_EQ(status.code(), ErrorCode::unavailable);
        EXPECT_THAT(status.to_string(),
                    AllOf(HasSubstr("GPU 0"), HasSubstr("open one again"),
                          HasSubstr("start the process again"), HasSubstr("(700)")));
      }
      elsewhere.context().device().recover();
      EXPECT_TRUE(elsewhere.schedule().wait().ok());
    }
    if (is_kept) {
      EXPECT_EQ(open().num_physical_devices(), 1) << "GPU 0 is left out";
      gpu->keep_context(0, false);
      continue;
    }
    const Backend anew = open();
    const Routine count = counter(anew);
    EXPECT_TRUE(count.schedule().wait().ok());
    EXPECT_THAT(values(count), Each(1));
    count.context().device().recover();
  }
}

// S11, B4: a GPU that is lost without work does not recover, though nothing has told of it
TEST_F(CudaFaultsTest, IdleGpusDoNotRecoverFromLoss) {
  const Backend backend = open();
  const Routine count = counter(backend);
  const Device device = count.context().device();
  device.await();
  gpu->lose(0, no_longer_there);
  EXPECT_EQ(failure([&] { device.recover(); }).code(), ErrorCode::unavailable);
}

// S11, B4: nor does a device that has not worked yet
TEST_F(CudaFaultsTest, NewDevicesDoNotRecoverFromLoss) {
  const Backend backend = open();
  const Device device = backend.physical_device(0).new_virtual_device();
  gpu->lose(0, illegal_address);
  EXPECT_EQ(failure([&] { device.recover(); }).code(), ErrorCode::unavailable);
}

// O57, B4: a traced kernel whose end nobody can be told ends all the same, without telling the rest
TEST_F(CudaFaultsTest, TracedKernelsEndWithoutMarks) {
  const Backend backend = open();
  const Tensor many("many", f32, {3000});
  const Index i;
  Program program("many");
  program << (many(i) += 1);
  CompileOptions traced;
  traced.trace_values = true;
  const Routine run = Context(backend.physical_device(0).new_virtual_device())
                          .link(backend.compile(program, traced));
  run.context().write(many, std::vector<float>(3000, 0));
  run.context().device().await();
  std::size_t told = 0;
  ScheduleOptions schedule;
  schedule.trace = [&](const TracedValue&) { ++told; };
  gpu->fail("cuEventRecord", 0, 2);
  EXPECT_FALSE(run.schedule({}, schedule).wait().ok());
  EXPECT_LE(told, 3000U);
}

// B4: a GPU that is lost while it has no work tells of that at the next use
TEST_F(CudaFaultsTest, IdleGpusMayBeLost) {
  const Backend backend = open();
  const Routine count = counter(backend);
  EXPECT_TRUE(count.schedule().wait().ok());
  gpu->lose(0, no_longer_there);
  const Status lost = count.schedule().wait();
  EXPECT_EQ(lost.code(), ErrorCode::device_failed);
  EXPECT_THAT(lost.to_string(), AllOf(HasSubstr("GPU 0"), HasSubstr("(46)")));
  gpu->reset();  // so that memory can be given back
}

// D9, B4: the host does not wait for slow copies, and work that needs their values does
TEST_F(CudaFaultsTest, CopiesMayBeSlow) {
  const Backend backend = open();
  const Routine count = counter(backend), elsewhere = counter(backend, 1);
  count.context().device().await();
  elsewhere.context().device().await();
  gpu->slow_copies(200);
  const auto start = std::chrono::steady_clock::now();
  count.schedule();
  const Transfer there = copy(x, count.context(), elsewhere.context());
  elsewhere.schedule();
  const Transfer back = copy(x, elsewhere.context(), count.context());
  const Event last = count.schedule();
  EXPECT_EQ(last.wait_for(1ms).code(), ErrorCode::deadline);
  EXPECT_TRUE(last.wait().ok());
  EXPECT_GE(std::chrono::steady_clock::now() - start, 400ms);
  EXPECT_TRUE(there.event.status().ok() && back.event.status().ok());
  EXPECT_THAT(values(count), Each(3));
}

// S12, S13, B4: waits for a kernel that hangs may end by their time; the kernel keeps its memory
TEST_F(CudaFaultsTest, KernelsMayHang) {
  const Backend backend = open();
  const Routine count = counter(backend);
  const Device device = count.context().device();
  device.await();
  gpu->hold(true);
  const Event hung = count.schedule();
  EXPECT_EQ(hung.wait_for(20ms).code(), ErrorCode::deadline);
  device.cancel_pending();
  EXPECT_EQ(hung.wait_for(20ms).code(), ErrorCode::deadline);
  EXPECT_EQ(failure([&] { device.finalize(20ms); }).code(), ErrorCode::deadline);
  gpu->hold(false);
  EXPECT_TRUE(hung.wait().ok());
}

// D5, B4: between GPUs values go directly where one can access the other's memory, else through the
// host
TEST_F(CudaFaultsTest, GpusMayNotReachEachOther) {
  for (const bool peers : {true, false}) {
    gpu->look({.peers = peers});
    const Backend backend = open();
    const Routine count = counter(backend), elsewhere = counter(backend, 1);
    EXPECT_TRUE(count.schedule().wait().ok());
    elsewhere.context().device().await();
    const std::size_t before = gpu->calls("cuMemcpyAsync");
    EXPECT_TRUE(copy(x, count.context(), elsewhere.context()).event.wait().ok());
    EXPECT_EQ(gpu->calls("cuMemcpyAsync") - before, peers ? 1u : 2u);
    EXPECT_TRUE(elsewhere.schedule().wait().ok());
    EXPECT_THAT(values(elsewhere), Each(2));
  }
}

}  // namespace
}  // namespace heddle
