// Streams of a GPU: what is asked of them happens in order, ends are told, and errors too. On the
// stand-in of tests/cuda_standin.
#include <array>
#include <atomic>
#include <numeric>
#include <thread>

#include "tests/unit/devices/cuda_fixture.hpp"

namespace heddle::dev {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr LaunchShape of_eight{.groups = {2, 1, 1}, .threads = {4, 1, 1}};

class CudaQueueTest : public CudaTest {
 protected:
  CudaQueueTest() : device(open()) {
    const Status s = device->load(kernels(of_eight), {.name = "unit"}, &module);
    EXPECT_TRUE(s.ok()) << s.to_string();
  }
  /// add() of `a` to `x`.
  Status launch_add(Queue& queue, const Numbers& x, std::int64_t a) const {
    const heddle_kernel_buffer buffer{x.data, x.bytes()};
    heddle_kernel_args args{};
    args.buffers = &buffer;
    args.num_buffers = 1;
    args.statics = &a;
    args.num_statics = 1;
    return queue.launch(*module, add, args);
  }

  std::shared_ptr<PhysicalDevice> device;
  std::shared_ptr<const Module> module;
};

// B4: copies, zeros and kernels in the order in which they were asked for
TEST_F(CudaQueueTest, OperationsAreInOrder) {
  Timeline timeline(*device);
  const Numbers x(*device, 8), y(*device, 8);
  std::array<std::int32_t, 8> given{}, result{};
  std::iota(given.begin(), given.end(), 1);
  std::array<std::int64_t, 20> statics{};
  EXPECT_TRUE(timeline.queue->zero(y.data, y.bytes()).ok());
  EXPECT_TRUE(timeline.queue->from_host(x.data, given.data(), x.bytes()).ok());
  for (std::size_t k = 0; k < statics.size(); ++k) {
    statics[k] = static_cast<std::int64_t>(k);
    EXPECT_TRUE(launch_add(*timeline.queue, x, statics[k]).ok());
  }
  EXPECT_TRUE(timeline.queue->copy(y.data, x.data, x.bytes()).ok());
  EXPECT_TRUE(timeline.queue->to_host(result.data(), y.data, y.bytes()).ok());
  EXPECT_TRUE(timeline.queue->record(1).ok());
  EXPECT_TRUE(timeline.told.wait_for(1).ok());
  EXPECT_THAT(result, ElementsAre(191, 192, 193, 194, 195, 196, 197, 198));
}

// B4: marks are told of in ascending order, each once its operations have ended, many at a time
TEST_F(CudaQueueTest, MarksAreToldOfInOrder) {
  Timeline timeline(*device);
  gpu->hold(true);
  constexpr std::uint64_t marks = 200;
  const Numbers x(*device, 8);
  for (std::uint64_t k = 1; k <= marks; ++k) {
    EXPECT_TRUE(timeline.queue->zero(x.data, x.bytes()).ok());
    EXPECT_TRUE(timeline.queue->record(k).ok());
  }
  EXPECT_TRUE(timeline.told.numbers().empty());
  gpu->hold(false);
  EXPECT_TRUE(timeline.told.wait_for(marks).ok());
  const auto numbers = timeline.told.numbers();
  EXPECT_TRUE(std::ranges::is_sorted(numbers));
  EXPECT_EQ(numbers.back(), marks);
  // Events are used again: so many marks of one after the other take few.
  const std::size_t made = gpu->calls("cuEventCreate");
  for (std::uint64_t k = marks + 1; k <= marks + 50; ++k) {
    EXPECT_TRUE(timeline.queue->record(k).ok());
    EXPECT_TRUE(timeline.told.wait_for(k).ok());
  }
  EXPECT_EQ(gpu->calls("cuEventCreate"), made);
}

// B4: what a kernel says of itself is there before its mark is told of
TEST_F(CudaQueueTest, KernelsTellHowTheyWent) {
  Timeline timeline(*device);
  for (std::uint64_t k = 1; k <= 300; ++k) {  // more than the cells that are made at a time
    heddle_kernel_status status{};
    heddle_kernel_args args{};
    args.status = &status;
    EXPECT_TRUE(timeline.queue->launch(*module, fails, args).ok());
    EXPECT_TRUE(timeline.queue->record(k).ok());
    ASSERT_TRUE(timeline.told.wait_for(k).ok());
    ASSERT_EQ(status.code, 7);
    ASSERT_EQ(status.detail, 41);
  }
  EXPECT_LE(gpu->calls("cuMemHostAlloc"), 1u) << "cells are used again";
}

// B4, S12: a kernel that runs on ends when the host says so
TEST_F(CudaQueueTest, KernelsHearThatTheyAreToStop) {
  Timeline timeline(*device);
  heddle_kernel_status status{};
  std::uint32_t stop = 0;
  heddle_kernel_args args{};
  args.status = &status;
  args.stop = &stop;
  EXPECT_TRUE(timeline.queue->launch(*module, runs_on, args).ok());
  EXPECT_TRUE(timeline.queue->record(1).ok());
  std::this_thread::sleep_for(std::chrono::milliseconds(5));
  EXPECT_TRUE(timeline.told.numbers().empty());
  std::atomic_ref(stop).store(1);
  EXPECT_TRUE(timeline.told.wait_for(1).ok());
  EXPECT_EQ(status.code, HEDDLE_KERNEL_STOPPED);
}

// B4, S12: kernels hear that they are to stop while the driver keeps the host waiting for them
TEST_F(CudaQueueTest, KernelsStopWhileHostMemoryIsAllocated) {
  Timeline running(*device);
  std::uint32_t stop = 0;
  heddle_kernel_args args{};
  args.stop = &stop;
  EXPECT_TRUE(running.queue->launch(*module, runs_on, args).ok());
  EXPECT_TRUE(running.queue->record(1).ok());
  gpu->look({.host_memory_waits = true});
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic_ref(stop).store(1);
  });
  std::vector<std::unique_ptr<Timeline>> others;
  while (gpu->calls("cuMemHostAlloc") < 2) {
    others.push_back(std::make_unique<Timeline>(*device));
    EXPECT_TRUE(others.back()->queue->launch(*module, fails, {}).ok());
    EXPECT_TRUE(others.back()->queue->record(1).ok());
  }
  host.join();
  EXPECT_TRUE(running.told.wait_for(1).ok());
  for (const auto& each : others) EXPECT_TRUE(each->told.wait_for(1).ok());
}

// B4: a queue waits for another's mark, and nobody on the host does
TEST_F(CudaQueueTest, QueuesWaitForEachOther) {
  Timeline first(*device), second(*device);
  const Numbers x(*device, 8);
  std::array<std::int32_t, 8> result{};
  for (std::int32_t round = 1; round <= 50; ++round) {
    const auto number = static_cast<std::uint64_t>(round);
    const std::int64_t a = 1;
    if (round == 1) {
      EXPECT_TRUE(first.queue->zero(x.data, x.bytes()).ok());
    }
    EXPECT_TRUE(launch_add(*first.queue, x, a).ok());
    EXPECT_TRUE(first.queue->record(number).ok());
    EXPECT_TRUE(second.queue->wait({first.queue.get(), number}).ok());
    EXPECT_TRUE(second.queue->to_host(result.data(), x.data, x.bytes()).ok());
    EXPECT_TRUE(second.queue->record(number).ok());
    EXPECT_TRUE(first.queue->wait({second.queue.get(), number}).ok());
    EXPECT_TRUE(second.told.wait_for(number).ok());
    ASSERT_THAT(result, Each(round));
  }
  EXPECT_TRUE(first.queue->record(51).ok());
  EXPECT_TRUE(first.told.wait_for(51).ok());
  EXPECT_TRUE(second.queue->wait({first.queue.get(), 51}).ok()) << "one that was told of";
}

// B4: an error that a GPU does not get over ends all that is outstanding there, and says which
// kernel it was at; other GPUs go on
TEST_F(CudaQueueTest, ALostGpuTellsEverybody) {
  const auto beside = open(1);
  gpu->hold(true);
  Timeline first(*device), second(*device), elsewhere(*beside);
  const Numbers x(*device, 8), y(*beside, 8);
  const heddle_kernel_args args{};
  EXPECT_TRUE(first.queue->launch(*module, breaks_the_gpu, args).ok());
  EXPECT_TRUE(first.queue->record(1).ok());
  EXPECT_TRUE(first.queue->record(2).ok());
  EXPECT_TRUE(second.queue->wait({first.queue.get(), 1}).ok());
  EXPECT_TRUE(launch_add(*second.queue, x, 1).ok());
  EXPECT_TRUE(second.queue->record(1).ok());
  EXPECT_TRUE(elsewhere.queue->zero(y.data, y.bytes()).ok());
  EXPECT_TRUE(elsewhere.queue->record(1).ok());
  gpu->hold(false);
  for (const Status& s :
       {first.told.wait_for(1), first.told.wait_for(2), second.told.wait_for(1)}) {
    EXPECT_EQ(s.code(), ErrorCode::device_failed);
    EXPECT_THAT(s.to_string(),
                AllOf(HasSubstr("GPU 0 (Stand-in) failed"), HasSubstr("'breaks_the_gpu', launch 1"),
                      HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)"),
                      HasSubstr("an illegal memory access was encountered")));
  }
  EXPECT_TRUE(elsewhere.told.wait_for(1).ok());
  EXPECT_EQ(second.queue->zero(x.data, x.bytes()).code(), ErrorCode::device_failed);
  EXPECT_EQ(second.queue->record(2).code(), ErrorCode::device_failed);
  EXPECT_TRUE(elsewhere.queue->record(2).ok());
  EXPECT_TRUE(elsewhere.told.wait_for(2).ok());
  gpu->reset();  // so that what was allocated can go
}

// B4: where each kernel is checked, its launch tells of its error, and every failure names it; else
// the oldest kernel would be named
TEST_F(CudaQueueTest, EachKernelMayBeChecked) {
  const auto checked = open(0, true);
  EXPECT_TRUE(checked->load(kernels(of_eight), {.name = "unit"}, &module).ok());
  Timeline first(*checked), second(*checked);
  const Numbers x(*checked, 8);
  EXPECT_TRUE(first.queue->zero(x.data, x.bytes()).ok());
  EXPECT_TRUE(launch_add(*first.queue, x, 1).ok());
  EXPECT_TRUE(second.queue->zero(x.data, x.bytes()).ok());
  const Status s = second.queue->launch(*module, breaks_the_gpu, {});
  EXPECT_EQ(first.queue->record(1).code(), ErrorCode::device_failed);
  for (const Status& each : {s, second.queue->record(1)}) {
    EXPECT_EQ(each.code(), ErrorCode::device_failed);
    EXPECT_THAT(each.to_string(),
                AllOf(HasSubstr("the kernel that failed is 'breaks_the_gpu', launch 2"),
                      HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS (700)")));
  }
  EXPECT_THAT(launch_add(*first.queue, x, 1).to_string(), HasSubstr("(700)"));
  gpu->reset();
}

// B4: a check that cannot be made fails its launch, and the GPU goes on
TEST_F(CudaQueueTest, ChecksThatFailLoseNoGpu) {
  const auto checked = open(0, true);
  EXPECT_TRUE(checked->load(kernels(of_eight), {.name = "unit"}, &module).ok());
  Timeline timeline(*checked);
  const Numbers x(*checked, 8);
  EXPECT_TRUE(timeline.queue->zero(x.data, x.bytes()).ok());
  gpu->fail("cuEventRecord", 0, cuda::out_of_memory);
  EXPECT_EQ(launch_add(*timeline.queue, x, 1).code(), ErrorCode::exhausted);
  EXPECT_TRUE(launch_add(*timeline.queue, x, 1).ok());
  EXPECT_TRUE(timeline.queue->record(1).ok());
  EXPECT_TRUE(timeline.told.wait_for(1).ok());
}

// B4, S12: a kernel that is checked hears that it is to stop
TEST_F(CudaQueueTest, CheckedKernelsHearThatTheyAreToStop) {
  const auto checked = open(0, true);
  EXPECT_TRUE(checked->load(kernels(of_eight), {.name = "unit"}, &module).ok());
  Timeline timeline(*checked);
  heddle_kernel_status status{};
  std::uint32_t stop = 0;
  heddle_kernel_args args{};
  args.status = &status;
  args.stop = &stop;
  std::thread host([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic_ref(stop).store(1);
  });
  EXPECT_TRUE(timeline.queue->launch(*module, runs_on, args).ok());
  EXPECT_EQ(std::atomic_ref(stop).load(), 1U) << "the launch waits for the kernel";
  host.join();
  EXPECT_TRUE(timeline.queue->record(1).ok());
  EXPECT_TRUE(timeline.told.wait_for(1).ok());
  EXPECT_EQ(status.code, HEDDLE_KERNEL_STOPPED);
}

// B4: a copy outside of all allocations is an error of the GPU
TEST_F(CudaQueueTest, MemoryOfNobodyIsNotCopied) {
  Timeline timeline(*device);
  const Numbers x(*device, 8);
  std::array<std::int32_t, 64> large{};
  gpu->hold(true);
  EXPECT_TRUE(timeline.queue->from_host(x.data, large.data(), sizeof large).ok());
  EXPECT_TRUE(timeline.queue->record(1).ok());
  gpu->hold(false);
  EXPECT_THAT(timeline.told.wait_for(1).to_string(), HasSubstr("CUDA_ERROR_ILLEGAL_ADDRESS"));
  gpu->reset();
}

// B4: an operation that is not taken says which, and what was before it goes on
TEST_F(CudaQueueTest, RefusedOperationsSayWhatTheyWere) {
  Timeline timeline(*device);
  const Numbers x(*device, 8);
  std::array<std::int32_t, 8> result{};
  const auto refused = [&](const char* function, auto&& asked) {
    gpu->fail(function, 0, cuda::out_of_memory);
    const Status s = asked();
    EXPECT_EQ(s.code(), ErrorCode::exhausted) << function;
    EXPECT_THAT(s.to_string(), AllOf(HasSubstr("GPU 0"), HasSubstr(function)));
  };
  EXPECT_TRUE(timeline.queue->zero(x.data, x.bytes()).ok());
  refused("cuMemsetD8Async", [&] { return timeline.queue->zero(x.data, x.bytes()); });
  refused("cuMemcpyAsync", [&] { return timeline.queue->to_host(&result, x.data, x.bytes()); });
  refused("cuLaunchKernel", [&] { return launch_add(*timeline.queue, x, 3); });
  EXPECT_TRUE(timeline.queue->to_host(result.data(), x.data, x.bytes()).ok());
  EXPECT_TRUE(timeline.queue->record(1).ok());
  EXPECT_TRUE(timeline.told.wait_for(1).ok());
  EXPECT_THAT(result, Each(0));
}

// B4: a mark that is not taken: all before it has ended when that is said
TEST_F(CudaQueueTest, RefusedMarksEndWhatWasBefore) {
  for (const char* const function : {"cuEventCreate", "cuEventRecord"}) {
    Timeline timeline(*device);
    const Numbers x(*device, 8);
    std::array<std::int32_t, 8> result{};
    std::thread later([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      gpu->hold(false);
    });
    gpu->hold(true);
    EXPECT_TRUE(timeline.queue->zero(x.data, x.bytes()).ok());
    EXPECT_TRUE(launch_add(*timeline.queue, x, 5).ok());
    EXPECT_TRUE(timeline.queue->to_host(result.data(), x.data, x.bytes()).ok());
    gpu->fail(function, 0, cuda::out_of_memory);
    EXPECT_EQ(timeline.queue->record(1).code(), ErrorCode::exhausted) << function;
    EXPECT_THAT(result, Each(5)) << function;
    later.join();
    EXPECT_TRUE(timeline.queue->record(2).ok());
    EXPECT_TRUE(timeline.told.wait_for(2).ok());
    EXPECT_THAT(timeline.told.numbers(), ElementsAre(2)) << function;
  }
}

// D3: more memory than a GPU has is refused with what was asked for
TEST_F(CudaQueueTest, AGpuIsFullAtItsBytes) {
  void* data = nullptr;
  const Status s = device->allocate(std::size_t{1} << 31, &data);
  EXPECT_EQ(s.code(), ErrorCode::exhausted);
  EXPECT_THAT(s.to_string(), AllOf(HasSubstr("GPU 0 (Stand-in) has no memory for 2147483648 bytes"),
                                   HasSubstr("cuMemAllocFromPoolAsync")));
}

// B4: images that are for another GPU, damaged, no code of a GPU, or without a kernel of theirs
TEST_F(CudaQueueTest, OtherImagesAreRefused) {
  std::shared_ptr<const Module> none;
  const Status other = device->load(kernels({}, "cubin-sm-80"), {.name = "unit"}, &none);
  EXPECT_EQ(other.code(), ErrorCode::compile_failed);
  EXPECT_THAT(other.to_string(), AllOf(HasSubstr("'unit' is of kind cubin-sm-80"),
                                       HasSubstr("GPU 0 (Stand-in) loads cubin-sm-90")));
  const std::vector<std::byte> text(200, std::byte{'x'});
  const Image no_code("cubin-sm-90", text, checksum(text), {{"add", {}}});
  EXPECT_EQ(device->load(no_code, {.name = "unit"}, &none).code(), ErrorCode::compile_failed);
  const Image damaged("cubin-sm-90", text, Checksum{}, {{"add", {}}});
  EXPECT_EQ(device->load(damaged, {.name = "unit"}, &none).code(), ErrorCode::compile_failed);
  const Image whole = kernels();
  const Image lacks("cubin-sm-90", {whole.bytes().begin(), whole.bytes().end()}, whole.sum(),
                    {{"absent", {}}});
  const Status lacked = device->load(lacks, {.name = "unit"}, &none);
  EXPECT_EQ(lacked.code(), ErrorCode::compile_failed);
  EXPECT_THAT(lacked.to_string(), HasSubstr("module 'unit' has no kernel absent"));
  gpu->fail("cuModuleLoadDataEx", 0, cuda::out_of_memory);
  EXPECT_EQ(device->load(whole, {.name = "unit"}, &none).code(), ErrorCode::unavailable);
  EXPECT_EQ(none, nullptr);
}

// B4: a kernel of more words than a GPU takes
TEST_F(CudaQueueTest, KernelsOfManyBuffersAreRefused) {
  Timeline timeline(*device);
  const Numbers x(*device, 8);
  std::vector<heddle_kernel_buffer> many(5000);
  many[0] = {x.data, x.bytes()};
  heddle_kernel_args args{};
  args.buffers = many.data();
  args.num_buffers = 4093;
  EXPECT_TRUE(timeline.queue->launch(*module, add, args).ok());
  EXPECT_TRUE(timeline.queue->record(1).ok());
  EXPECT_TRUE(timeline.told.wait_for(1).ok());
  args.num_buffers = 4094;
  const Status s = timeline.queue->launch(*module, add, args);
  EXPECT_EQ(s.code(), ErrorCode::unavailable);
  EXPECT_THAT(s.to_string(), AllOf(HasSubstr("'add' has 4094 buffers"), HasSubstr("takes 4093"),
                                   HasSubstr("CUDA 12.4")));
}

// B4: before CUDA 12.1 there was room for fewer
TEST_F(CudaTest, OldDriversTakeFewerBuffers) {
  gpu->look({.version = 12000});
  const auto device = open();
  std::shared_ptr<const Module> module;
  ASSERT_TRUE(device->load(kernels(), {.name = "unit"}, &module).ok());
  Timeline timeline(*device);
  const std::vector<heddle_kernel_buffer> many(511);
  heddle_kernel_args args{};
  args.buffers = many.data();
  args.num_buffers = 511;
  EXPECT_THAT(timeline.queue->launch(*module, add, args).to_string(),
              AllOf(HasSubstr("takes 510"), HasSubstr("CUDA 12.0")));
}

// B4: the last handle of a device may go in the thread that tells of ends, and a queue elsewhere
// while one of its ends is told
TEST_F(CudaQueueTest, HandlesMayGoAnywhere) {
  struct Last final : Completions {
    std::shared_ptr<PhysicalDevice> device;
    std::unique_ptr<Queue> queue;
    std::atomic<bool> recorded = false, gone = false;
    void ended(std::uint64_t /*number*/, Status /*status*/) noexcept override {
      recorded.wait(false);
      queue.reset();
      device.reset();
      gone = true;
    }
  };
  for (int round = 0; round < 20; ++round) {
    Last last;
    last.device = open(1);
    EXPECT_TRUE(last.device->new_queue(last, &last.queue).ok());
    EXPECT_TRUE(last.queue->record(1).ok());
    last.recorded = true;
    last.recorded.notify_all();
    while (!last.gone) std::this_thread::yield();
  }
  // Its thread ends by itself, soon.
  for (int k = 0; k < 6000 && gpu->live_handles() > 4; ++k)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
}

// B4: two queues run side by side, and one thread tells of both
TEST_F(CudaQueueTest, QueuesOverlap) {
  Timeline first(*device), second(*device);
  std::uint32_t stop = 0;
  heddle_kernel_args args{};
  args.stop = &stop;
  EXPECT_TRUE(first.queue->launch(*module, runs_on, args).ok());
  EXPECT_TRUE(first.queue->record(1).ok());
  const Numbers x(*device, 8);
  EXPECT_TRUE(second.queue->zero(x.data, x.bytes()).ok());
  EXPECT_TRUE(second.queue->record(1).ok());
  EXPECT_TRUE(second.told.wait_for(1).ok());
  EXPECT_TRUE(first.told.numbers().empty());
  std::atomic_ref(stop).store(1);
  EXPECT_TRUE(first.told.wait_for(1).ok());
}

}  // namespace
}  // namespace heddle::dev
