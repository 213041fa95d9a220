// See pocl.hpp.
#include "opencl/pocl.hpp"

#include <dlfcn.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

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
constexpr std::uint32_t platform_name = 0x0902, platform_version = 0x0901;
constexpr std::uint32_t build_log = 0x1183;
constexpr std::uint64_t read_write = 1, copies_host = 32;

// The functions of CL/cl.h in use; notifications, events and properties are null pointers.
#define HEDDLE_OPENCL_FUNCTIONS(X)                                                              \
  X(clGetPlatformIDs, Result, (std::uint32_t, PlatformTag**, std::uint32_t*))                   \
  X(clGetPlatformInfo, Result, (PlatformTag*, std::uint32_t, std::size_t, void*, std::size_t*)) \
  X(clGetDeviceIDs, Result,                                                                     \
    (PlatformTag*, std::uint64_t, std::uint32_t, DeviceTag**, std::uint32_t*))                  \
  X(clCreateContext, ContextTag*,                                                               \
    (const void*, std::uint32_t, DeviceTag* const*, void*, void*, Result*))                     \
  X(clReleaseContext, Result, (ContextTag*))                                                    \
  X(clCreateCommandQueue, QueueTag*, (ContextTag*, DeviceTag*, std::uint64_t, Result*))         \
  X(clReleaseCommandQueue, Result, (QueueTag*))                                                 \
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

}  // namespace

struct Pocl::Api {
  Api() {
    library = ::dlopen("libOpenCL.so.1", RTLD_NOW);
    if (library == nullptr)
      throw Error(ErrorCode::unavailable, fmt::format("{}{}", ::dlerror(), advice));
#define HEDDLE_FIND(name, result, parameters) \
  name = reinterpret_cast<decltype(name)>(::dlsym(library, #name));
    HEDDLE_OPENCL_FUNCTIONS(HEDDLE_FIND)
#undef HEDDLE_FIND
  }

  void* library;  // stays open: PoCL has threads
#define HEDDLE_DECLARE(name, result, parameters) result(*name) parameters;
  HEDDLE_OPENCL_FUNCTIONS(HEDDLE_DECLARE)
#undef HEDDLE_DECLARE
};

struct Pocl::Handles {
  files::TempDir cache{{}};
  DeviceTag* device = nullptr;
  Held<ContextTag> context{nullptr, nullptr};
  Held<QueueTag> queue{nullptr, nullptr};
};

Pocl& Pocl::opened() {
  static Pocl* const pocl = new Pocl();
  return *pocl;
}

Pocl::Pocl() : api_(std::make_unique<Api>()), handles_(std::make_unique<Handles>()) {
  // PoCL's cache of binaries; the user's stays as it is.
  ::setenv("POCL_CACHE_DIR", handles_->cache.path().c_str(), 1);
  PlatformTag* platforms[16] = {};
  std::uint32_t count = 0;
  if (api_->clGetPlatformIDs(16, platforms, &count) < 0) count = 0;
  for (PlatformTag* const platform : std::span(platforms).first(std::min(count, 16U))) {
    char name[128] = {}, version[128] = {};
    api_->clGetPlatformInfo(platform, platform_name, sizeof name - 1, name, nullptr);
    api_->clGetPlatformInfo(platform, platform_version, sizeof version - 1, version, nullptr);
    if (std::strcmp(name, "Portable Computing Language") == 0 &&
        api_->clGetDeviceIDs(platform, type_cpu, 1, &handles_->device, nullptr) >= 0)
      version_ = version;
  }
  if (handles_->device == nullptr)
    throw Error(ErrorCode::unavailable, fmt::format("OpenCL has no PoCL{}", advice));
  Result result = 0;
  handles_->context = {
      api_->clCreateContext(nullptr, 1, &handles_->device, nullptr, nullptr, &result),
      api_->clReleaseContext};
  require(result, "clCreateContext");
  handles_->queue = {
      api_->clCreateCommandQueue(handles_->context.get(), handles_->device, 0, &result),
      api_->clReleaseCommandQueue};
  require(result, "clCreateCommandQueue");
}

Pocl::~Pocl() = default;

std::int32_t Pocl::run(const std::string& text, std::span<const Launch> launches) {
  Result result = 0;
  const char* source = text.c_str();
  const Held<ProgramTag> program(
      api_->clCreateProgramWithSource(handles_->context.get(), 1, &source, nullptr, &result),
      api_->clReleaseProgram);
  require(result, "clCreateProgramWithSource");
  // With optimisation, PoCL 3.1 loses conditions of single threads behind barriers (docs/cuda.md).
  const char* const options = "-cl-opt-disable -cl-fp32-correctly-rounded-divide-sqrt";
  if (api_->clBuildProgram(program.get(), 1, &handles_->device, options, nullptr, nullptr) < 0) {
    std::string log(1U << 16U, '\0');
    std::size_t bytes = 0;
    api_->clGetProgramBuildInfo(program.get(), handles_->device, build_log, log.size(), log.data(),
                                &bytes);
    throw Error(ErrorCode::compile_failed, log.substr(0, bytes) + text);
  }
  // The bytes of a status (code, detail), and of a stop word.
  const auto buffer = [&](void* data, std::size_t bytes) {
    Held<MemoryTag> made(api_->clCreateBuffer(handles_->context.get(), read_write | copies_host,
                                              bytes, data, &result),
                         api_->clReleaseMemObject);
    require(result, "clCreateBuffer");
    return made;
  };
  const auto read = [&](const Held<MemoryTag>& from, void* to, std::size_t bytes) {
    require(api_->clEnqueueReadBuffer(handles_->queue.get(), from.get(), 1, 0, bytes, to, 0,
                                      nullptr, nullptr),
            "clEnqueueReadBuffer");
  };
  std::int32_t status[2] = {};
  for (const Launch& launch : launches) {
    const Held<KernelTag> kernel(
        api_->clCreateKernel(program.get(), launch.kernel.c_str(), &result), api_->clReleaseKernel);
    require(result, "clCreateKernel");
    std::uint32_t argument = 0;
    const auto pass = [&](const auto& value) {
      require(api_->clSetKernelArg(kernel.get(), argument++, sizeof value, &value),
              "clSetKernelArg");
    };
    std::vector<Held<MemoryTag>> buffers;
    for (const HostArray& array : launch.buffers) {
      std::byte none{};  // OpenCL has no empty buffers
      const bool is_empty = array.num_bytes() == 0;
      buffers.push_back(buffer(is_empty ? &none : array.data(), is_empty ? 1 : array.num_bytes()));
      pass(buffers.back().get());
    }
    for (const std::int64_t value : launch.statics) pass(value);
    std::uint32_t stop = launch.asks_to_stop ? 1 : 0;
    const Held<MemoryTag> told = buffer(status, sizeof status), asked = buffer(&stop, sizeof stop);
    pass(told.get());
    pass(asked.get());
    const std::size_t threads = launch.shape.threads[0];
    const std::size_t all = threads * launch.shape.groups[0];
    require(api_->clEnqueueNDRangeKernel(handles_->queue.get(), kernel.get(), 1, nullptr, &all,
                                         &threads, 0, nullptr, nullptr),
            "clEnqueueNDRangeKernel");
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      const HostArray& array = launch.buffers[k];
      if (array.num_bytes() > 0) read(buffers[k], array.data(), array.num_bytes());
    }
    read(told, status, sizeof status);
  }
  return status[0];
}

}  // namespace heddle::jit::testing
