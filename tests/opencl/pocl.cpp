// See pocl.hpp.
#include "opencl/pocl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "files/temp_dir.hpp"
#include "heddle/status.hpp"

namespace heddle::jit::testing {
namespace {

using Result = std::int32_t;  // cl_int; negative: an error
struct PlatformTag;
struct DeviceTag;
struct ContextTag;
struct QueueTag;
struct ProgramTag;
struct KernelTag;
struct MemoryTag;

// Constants of CL/cl.h.
constexpr std::uint64_t type_cpu = 2;
constexpr std::uint32_t platform_name = 0x0902, build_log = 0x1183;
constexpr std::uint64_t read_write = 1, copies_host = 32;

// The functions of CL/cl.h in use; notifications, events and properties are null pointers.
#define HEDDLE_OPENCL_FUNCTIONS(X)                                                              \
  X(clGetPlatformIDs, Result, (std::uint32_t, PlatformTag**, std::uint32_t*))                   \
  X(clGetPlatformInfo, Result, (PlatformTag*, std::uint32_t, std::size_t, void*, std::size_t*)) \
  X(clGetDeviceIDs, Result,                                                                     \
    (PlatformTag*, std::uint64_t, std::uint32_t, DeviceTag**, std::uint32_t*))                  \
  X(clCreateContext, ContextTag*,                                                               \
    (const void*, std::uint32_t, DeviceTag* const*, void*, void*, Result*))                     \
  X(clCreateCommandQueue, QueueTag*, (ContextTag*, DeviceTag*, std::uint64_t, Result*))         \
  X(clCreateProgramWithSource, ProgramTag*,                                                     \
    (ContextTag*, std::uint32_t, const char**, const std::size_t*, Result*))                    \
  X(clBuildProgram, Result,                                                                     \
    (ProgramTag*, std::uint32_t, DeviceTag* const*, const char*, void*, void*))                 \
  X(clGetProgramBuildInfo, Result,                                                              \
    (ProgramTag*, DeviceTag*, std::uint32_t, std::size_t, void*, std::size_t*))                 \
  X(clReleaseProgram, Result, (ProgramTag*))                                                    \
  X(clCreateKernel, KernelTag*, (ProgramTag*, const char*, Result*))                            \
  X(clSetKernelArg, Result, (KernelTag*, std::uint32_t, std::size_t, const void*))              \
  X(clReleaseKernel, Result, (KernelTag*))                                                      \
  X(clCreateBuffer, MemoryTag*, (ContextTag*, std::uint64_t, std::size_t, void*, Result*))      \
  X(clReleaseMemObject, Result, (MemoryTag*))                                                   \
  X(clEnqueueNDRangeKernel, Result,                                                             \
    (QueueTag*, KernelTag*, std::uint32_t, const std::size_t*, const std::size_t*,              \
     const std::size_t*, std::uint32_t, const void*, void*))                                    \
  X(clEnqueueReadBuffer, Result,                                                                \
    (QueueTag*, MemoryTag*, std::uint32_t, std::size_t, std::size_t, void*, std::uint32_t,      \
     const void*, void*))

void require(Result result, const char* function, ErrorCode code = ErrorCode::device_failed) {
  if (result < 0) throw Error(code, fmt::format("{} failed with code {}", function, result));
}

constexpr const char* advice = "; install pocl-opencl-icd and ocl-icd-libopencl1";

template <class T>
using Held = std::unique_ptr<T, Result (*)(T*)>;

struct Pocl {
  Pocl();
  [[nodiscard]] Held<ProgramTag> built(const std::string& text) const;
  /// The code that the kernel left in its status.
  std::int32_t run(ProgramTag* program, const Launch& launch) const;

#define HEDDLE_DECLARE(name, result, parameters) result(*name) parameters;
  HEDDLE_OPENCL_FUNCTIONS(HEDDLE_DECLARE)
#undef HEDDLE_DECLARE
  DeviceTag* device = nullptr;
  ContextTag* context = nullptr;
  QueueTag* queue = nullptr;

 private:
  [[nodiscard]] Held<MemoryTag> filled(const void* data, std::size_t bytes) const;
  void read(MemoryTag* from, void* to, std::size_t bytes) const;
};

Pocl::Pocl() {
  void* const library = ::dlopen("libOpenCL.so.1", RTLD_NOW);
  if (library == nullptr)
    throw Error(ErrorCode::unavailable, fmt::format("{}{}", ::dlerror(), advice));
#define HEDDLE_FIND(name, result, parameters) \
  name = reinterpret_cast<decltype(name)>(::dlsym(library, #name));
  HEDDLE_OPENCL_FUNCTIONS(HEDDLE_FIND)
#undef HEDDLE_FIND
  PlatformTag* platforms[16] = {};
  std::uint32_t count = 0;
  if (clGetPlatformIDs(16, platforms, &count) < 0) count = 0;
  for (PlatformTag* const platform : std::span(platforms).first(std::min(count, 16U))) {
    char name[128] = {};
    clGetPlatformInfo(platform, platform_name, sizeof name - 1, name, nullptr);
    if (std::strcmp(name, "Portable Computing Language") == 0)
      clGetDeviceIDs(platform, type_cpu, 1, &device, nullptr);
  }
  if (device == nullptr)
    throw Error(ErrorCode::unavailable, fmt::format("OpenCL has no PoCL{}", advice));
  Result result = 0;
  context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &result);
  require(result, "clCreateContext");
  queue = clCreateCommandQueue(context, device, 0, &result);
  require(result, "clCreateCommandQueue");
}

Held<ProgramTag> Pocl::built(const std::string& text) const {
  Result result = 0;
  const char* source = text.c_str();
  Held<ProgramTag> program(clCreateProgramWithSource(context, 1, &source, nullptr, &result),
                           clReleaseProgram);
  require(result, "clCreateProgramWithSource");
  // With optimisation, PoCL 3.1 loses conditions of single threads behind barriers (docs/cuda.md).
  const char* const options = "-cl-opt-disable -cl-fp32-correctly-rounded-divide-sqrt";
  if (clBuildProgram(program.get(), 1, &device, options, nullptr, nullptr) < 0) {
    std::string log(1U << 16U, '\0');
    std::size_t bytes = 0;
    clGetProgramBuildInfo(program.get(), device, build_log, log.size(), log.data(), &bytes);
    throw Error(ErrorCode::compile_failed, log.substr(0, bytes) + text);
  }
  return program;
}

/// OpenCL has no empty buffers.
Held<MemoryTag> Pocl::filled(const void* data, std::size_t bytes) const {
  std::byte none{};
  Result result = 0;
  Held<MemoryTag> buffer(
      clCreateBuffer(context, read_write | copies_host, std::max<std::size_t>(bytes, 1),
                     bytes == 0 ? &none : const_cast<void*>(data), &result),
      clReleaseMemObject);
  require(result, "clCreateBuffer");
  return buffer;
}

void Pocl::read(MemoryTag* from, void* to, std::size_t bytes) const {
  if (bytes == 0) return;
  const std::uint32_t waits = 1;
  require(clEnqueueReadBuffer(queue, from, waits, 0, bytes, to, 0, nullptr, nullptr),
          "clEnqueueReadBuffer");
}

std::int32_t Pocl::run(ProgramTag* program, const Launch& launch) const {
  Result result = 0;
  const Held<KernelTag> kernel(clCreateKernel(program, launch.kernel.c_str(), &result),
                               clReleaseKernel);
  require(result, "clCreateKernel");
  std::uint32_t argument = 0;
  const auto pass = [&](const auto& value) {
    require(clSetKernelArg(kernel.get(), argument++, sizeof value, &value), "clSetKernelArg");
  };
  std::vector<Held<MemoryTag>> buffers;
  for (const HostArray& array : launch.buffers) {
    buffers.push_back(filled(array.data(), array.num_bytes()));
    pass(buffers.back().get());
  }
  for (const std::int64_t value : launch.statics) pass(value);
  std::int32_t status[2] = {};  // code, detail
  const std::uint32_t stop = launch.asks_to_stop ? 1 : 0;
  const Held<MemoryTag> told = filled(status, sizeof status), asked = filled(&stop, sizeof stop);
  pass(told.get());
  pass(asked.get());
  const std::size_t threads = launch.shape.threads[0];
  const std::size_t all = threads * launch.shape.groups[0];
  require(
      clEnqueueNDRangeKernel(queue, kernel.get(), 1, nullptr, &all, &threads, 0, nullptr, nullptr),
      "clEnqueueNDRangeKernel");
  for (std::size_t k = 0; k < buffers.size(); ++k)
    read(buffers[k].get(), launch.buffers[k].data(), launch.buffers[k].num_bytes());
  read(told.get(), status, sizeof status);
  return status[0];
}

const Pocl& opened() {
  // PoCL's cache of binaries; the user's cache stays as it is.
  static const files::TempDir cache{{}};
  // Released at exit, a context would meet an LLVM whose objects are already destroyed.
  static const Pocl* const pocl = [] {
    ::setenv("POCL_CACHE_DIR", cache.path().c_str(), 1);
    return new Pocl();
  }();
  return *pocl;
}

}  // namespace

void open_pocl() { opened(); }

std::int32_t run_on_pocl(const std::string& text, std::span<const Launch> launches) {
  const Pocl& pocl = opened();
  const Held<ProgramTag> program = pocl.built(text);
  std::int32_t code = 0;
  for (const Launch& launch : launches) code = std::max(code, pocl.run(program.get(), launch));
  return code;
}

}  // namespace heddle::jit::testing
