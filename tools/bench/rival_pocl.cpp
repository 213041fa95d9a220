// The OpenCL rival: PoCL on the processor, an in-order queue and a kernel that counts its runs; one
// worker thread, bound by starting PoCL while the host is on the worker's processor. PoCL starts
// once per process and sleeps while idle. Its cache goes to a temporary folder, so that the user's
// home stays unchanged.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <stdlib.h>

#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "files/temp_dir.hpp"
#include "heddle/status.hpp"
#include "tools/bench/rivals.hpp"
#include "tools/bench/workers.hpp"

namespace heddle::bench {
namespace {

constexpr const char* name = "PoCL in-order queue";
constexpr const char* source = "kernel void add_one(global ulong* ran) { ++*ran; }";

void require(cl_int code, const char* what) {
  if (code != CL_SUCCESS)
    throw Error(ErrorCode::unavailable,
                std::string("PoCL: ") + what + " failed with code " + std::to_string(code));
}

cl_device_id find_device() {
  cl_platform_id platforms[16] = {};
  cl_uint count = 0;
  if (clGetPlatformIDs(16, platforms, &count) != CL_SUCCESS) count = 0;
  for (cl_uint k = 0; k < count; ++k) {
    char text[128] = {};
    clGetPlatformInfo(platforms[k], CL_PLATFORM_NAME, sizeof text - 1, text, nullptr);
    cl_device_id device = nullptr;
    if (std::strcmp(text, "Portable Computing Language") == 0 &&
        clGetDeviceIDs(platforms[k], CL_DEVICE_TYPE_CPU, 1, &device, nullptr) == CL_SUCCESS) {
      return device;
    }
  }
  throw Error(ErrorCode::unavailable, "OpenCL has no PoCL here; install pocl-opencl-icd");
}

template <auto release>
struct Release {
  template <class T>
  void operator()(T* held) const {
    release(held);
  }
};
template <class Handle, auto release>
using Owned = std::unique_ptr<std::remove_pointer_t<Handle>, Release<release>>;

/// PoCL, started.
struct Runtime {
  using Queue = Owned<cl_command_queue, clReleaseCommandQueue>;
  using Event = Owned<cl_event, clReleaseEvent>;

  Runtime() {
    setenv("POCL_CACHE_DIR", cache.path().c_str(), 1);
    setenv("POCL_MAX_PTHREAD_COUNT", "1", 1);
    pin_this_thread(worker_processor);  // PoCL's threads inherit the processor
    device = find_device();
    cl_int code = CL_SUCCESS;
    context.reset(clCreateContext(nullptr, 1, &device, nullptr, nullptr, &code));
    pin_this_thread(host_processor);
    require(code, "clCreateContext");
    const char* text = source;
    program.reset(clCreateProgramWithSource(context.get(), 1, &text, nullptr, &code));
    require(code, "clCreateProgramWithSource");
    require(clBuildProgram(program.get(), 1, &device, "", nullptr, nullptr), "clBuildProgram");
    kernel.reset(clCreateKernel(program.get(), "add_one", &code));
    require(code, "clCreateKernel");
    counter.reset(
        clCreateBuffer(context.get(), CL_MEM_READ_WRITE, sizeof(cl_ulong), nullptr, &code));
    require(code, "clCreateBuffer");
    cl_mem memory = counter.get();
    require(clSetKernelArg(kernel.get(), 0, sizeof memory, &memory), "clSetKernelArg");
  }
  Runtime(const Runtime&) = delete;
  Runtime& operator=(const Runtime&) = delete;

  /// An in-order queue, the count at zero.
  [[nodiscard]] Queue new_queue() const {
    cl_int code = CL_SUCCESS;
    Queue queue(clCreateCommandQueue(context.get(), device, 0, &code));
    require(code, "clCreateCommandQueue");
    const cl_ulong zero = 0;
    require(clEnqueueWriteBuffer(queue.get(), counter.get(), CL_TRUE, 0, sizeof zero, &zero, 0,
                                 nullptr, nullptr),
            "clEnqueueWriteBuffer");
    return queue;
  }
  /// `done`, where given, receives the event of the kernel's end.
  void enqueue(const Queue& queue, const Event* after = nullptr, Event* done = nullptr) const {
    constexpr std::size_t one = 1;
    const cl_event before = after != nullptr ? after->get() : nullptr;
    cl_event made = nullptr;
    require(clEnqueueNDRangeKernel(queue.get(), kernel.get(), 1, nullptr, &one, &one,
                                   before != nullptr ? 1 : 0, before != nullptr ? &before : nullptr,
                                   done != nullptr ? &made : nullptr),
            "clEnqueueNDRangeKernel");
    if (done != nullptr) done->reset(made);
  }
  void finish(const Queue& queue) const { require(clFinish(queue.get()), "clFinish"); }
  void require_count(const Queue& queue, std::uint64_t expected) const {
    cl_ulong ran = 0;
    require(clEnqueueReadBuffer(queue.get(), counter.get(), CL_TRUE, 0, sizeof ran, &ran, 0,
                                nullptr, nullptr),
            "clEnqueueReadBuffer");
    require_all_ran(name, ran, expected);
  }

  const files::TempDir cache{{}};
  cl_device_id device = nullptr;
  Owned<cl_context, clReleaseContext> context;
  Owned<cl_program, clReleaseProgram> program;
  Owned<cl_kernel, clReleaseKernel> kernel;
  Owned<cl_mem, clReleaseMemObject> counter;
};

/// Started by the first slice.
using Lazy = std::shared_ptr<std::unique_ptr<const Runtime>>;
const Runtime& started(const Lazy& lazy) {
  if (!*lazy) *lazy = std::make_unique<const Runtime>();
  return **lazy;
}

Contender submit(const Lazy& lazy) {
  return {name, Kind::rival, [lazy](nanoseconds length, Samples& samples) {
            constexpr std::size_t batch = 2000;
            const Runtime& runtime = started(lazy);
            const Runtime::Queue queue = runtime.new_queue();
            std::uint64_t submitted = 0;
            const double ns = timed_loop(length, batch, [&](std::size_t count) {
              const auto start = Clock::now();
              for (std::size_t k = 0; k < count; ++k) runtime.enqueue(queue);
              runtime.finish(queue);
              submitted += count;
              samples.add(ns_between(start, Clock::now()) / static_cast<double>(count));
            });
            runtime.require_count(queue, submitted);
            return ns;
          }};
}

Contender round_trip(const Lazy& lazy) {
  return {name, Kind::rival, [lazy](nanoseconds length, Samples& samples) {
            const Runtime& runtime = started(lazy);
            const Runtime::Queue queue = runtime.new_queue();
            std::uint64_t submitted = 0;
            const double ns = timed_operations(length, samples, [&] {
              ++submitted;
              runtime.enqueue(queue);
              runtime.finish(queue);
            });
            runtime.require_count(queue, submitted);
            return ns;
          }};
}

Contender parked(const Lazy& lazy) {
  return {name, Kind::rival, [lazy](nanoseconds length, Samples& samples) {
            const Runtime& runtime = started(lazy);
            const Runtime::Queue queue = runtime.new_queue();
            std::uint64_t submitted = 0;
            const double ns = timed_after_pauses(length, rival_pause, samples, [&] {
              ++submitted;
              runtime.enqueue(queue);
              runtime.finish(queue);
            });
            runtime.require_count(queue, submitted);
            return ns;
          }};
}

/// Two queues that wait for the other queue's events. One thread serves both: no hop between
/// threads.
Contender awaited_hop(const Lazy& lazy) {
  return {"PoCL, two queues, one thread", Kind::rival,
          [lazy](nanoseconds length, Samples& samples) {
            constexpr std::size_t hops = 1000;
            const Runtime& runtime = started(lazy);
            const Runtime::Queue queues[] = {runtime.new_queue(), runtime.new_queue()};
            std::uint64_t submitted = 0;
            const double ns = timed_loop(length, hops, [&](std::size_t count) {
              const auto start = Clock::now();
              Runtime::Event before;
              for (std::size_t k = 0; k < count; ++k) {
                Runtime::Event done;
                runtime.enqueue(queues[k % 2], &before, &done);
                before = std::move(done);
              }
              for (const Runtime::Queue& queue : queues) runtime.finish(queue);
              submitted += count;
              samples.add(ns_between(start, Clock::now()) / static_cast<double>(count));
            });
            runtime.require_count(queues[0], submitted);
            return ns;
          }};
}

}  // namespace

Rival pocl_rival() {
  const auto lazy = one_for_all_rows<std::unique_ptr<const Runtime>>();
  Rival rival;
  rival.submit = submit(lazy);
  rival.round_trip = round_trip(lazy);
  rival.parked = parked(lazy);
  rival.awaited_hop = awaited_hop(lazy);
  return rival;
}

}  // namespace heddle::bench
