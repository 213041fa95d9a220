// Rules of devices and contexts, and of finding functions.
#include <dlfcn.h>

#include "tests/driver_rules/rules_fixture.hpp"

namespace heddle::driver_rules {
namespace {

class ContextRulesTest : public RulesTest {
 protected:
  [[nodiscard]] Context current() const {
    Context context = nullptr;
    EXPECT_CUDA(cuda.context_current(&context));
    return context;
  }
};

// Context Management: "A context may be current to several threads; each thread has a stack of
// contexts"; calls without a current context return CUDA_ERROR_INVALID_CONTEXT.
TEST_F(ContextRulesTest, EachThreadHasItsOwnStack) {
  EXPECT_EQ(current(), gpu.context);
  std::thread([&] {
    EXPECT_EQ(current(), nullptr);
    Stream stream = nullptr;
    EXPECT_EQ(driver.stream_create(&stream, stream_non_blocking), invalid_context);
    Context context = nullptr;
    EXPECT_EQ(driver.context_pop(&context), invalid_context);
    const OnGpu here(gpu);
    EXPECT_EQ(current(), gpu.context);
    Work().synchronize();
  }).join();
  EXPECT_EQ(current(), gpu.context);
}

// Context Management, cuCtxPopCurrent: "If a context was current to the CPU thread before [...]
// cuCtxPushCurrent() was called, this function makes that context current to the CPU thread again."
TEST_F(ContextRulesTest, StacksNest) {
  const RuledGpu& other = cuda.gpus.back();
  EXPECT_CUDA(driver.context_push(other.context));
  EXPECT_EQ(current(), other.context);
  EXPECT_CUDA(driver.context_push(gpu.context));
  EXPECT_EQ(current(), gpu.context);
  Context context = nullptr;
  EXPECT_CUDA(driver.context_pop(&context));
  EXPECT_EQ(context, gpu.context);
  EXPECT_EQ(current(), other.context);
  EXPECT_CUDA(driver.context_pop(&context));
  EXPECT_EQ(context, other.context);
  EXPECT_EQ(current(), gpu.context);
}

// Primary Context Management, cuDevicePrimaryCtxRetain: "Retains the primary context on the device.
// Once the user successfully retains the primary context, the primary context will be active and
// available to the user until the user releases it"; the context is one, and counted.
TEST_F(ContextRulesTest, PrimaryContextsAreCounted) {
  Context again = nullptr;
  EXPECT_CUDA(driver.context_retain(&again, gpu.device));
  EXPECT_EQ(again, gpu.context);
  EXPECT_CUDA(driver.context_release(gpu.device));
  const Work work;
  const GpuNumber x;
  work.launch("add", {x.address(), 1});
  work.synchronize();
  EXPECT_EQ(x.value(), 1);
}

// Device Management, cuDeviceGet: ordinals are "in the range [0, cuDeviceGetCount()-1]".
TEST_F(ContextRulesTest, UnknownDevicesAreRefused) {
  int count = 0;
  EXPECT_CUDA(driver.device_count(&count));
  EXPECT_EQ(static_cast<std::size_t>(count), cuda.gpus.size());
  Ordinal device = 0;
  for (const int ordinal : {-1, count})
    EXPECT_EQ(driver.device_get(&device, ordinal), invalid_device);
}

// Initialization, cuInit: "Flags must be 0"; it may be called again.
TEST_F(ContextRulesTest, InitialisingAgainIsHarmless) {
  EXPECT_CUDA(driver.init(0));
  EXPECT_EQ(driver.init(1), invalid_value);
}

// Error Handling, cuGetErrorName and cuGetErrorString name errors; for an unknown one, "NULL and
// CUDA_ERROR_INVALID_VALUE".
TEST_F(ContextRulesTest, ErrorsHaveNames) {
  const char* name = nullptr;
  EXPECT_CUDA(driver.error_name(out_of_memory, &name));
  EXPECT_STREQ(name, "CUDA_ERROR_OUT_OF_MEMORY");
  EXPECT_CUDA(driver.error_text(illegal_address, &name));
  EXPECT_STREQ(name, "an illegal memory access was encountered");
  EXPECT_EQ(driver.error_name(123'456, &name), invalid_value);
  EXPECT_EQ(name, nullptr);
}

// Driver Entry Point Access, cuGetProcAddress: "The API will return CUDA_SUCCESS and set the
// returned pfn to NULL if the requested driver function is not supported on the platform, no ABI
// compatible driver function exists for the specified cudaVersion or if the driver symbol is
// invalid"; symbolStatus says which.
TEST_F(ContextRulesTest, UnknownFunctionsAreTold) {
  void* const library = ::dlopen(driver.file.c_str(), RTLD_NOW | RTLD_NOLOAD);
  const auto address_of =
      reinterpret_cast<Result (*)(const char*, void**, int, std::uint64_t, int*)>(
          ::dlsym(library, "cuGetProcAddress_v2"));
  constexpr int is_found = 0, is_unknown = 1, is_newer = 2;
  void* function = nullptr;
  int status = -1;
  EXPECT_CUDA(address_of("cuMemPoolCreate", &function, driver_version_min, 0, &status));
  EXPECT_NE(function, nullptr);
  EXPECT_EQ(status, is_found);
  EXPECT_CUDA(address_of("cuMemPoolCreate", &function, 11000, 0, &status));
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, is_newer);
  EXPECT_CUDA(address_of("cuNoFunction", &function, driver_version_min, 0, &status));
  EXPECT_EQ(function, nullptr);
  EXPECT_EQ(status, is_unknown);
  ::dlclose(library);
}

}  // namespace
}  // namespace heddle::driver_rules
