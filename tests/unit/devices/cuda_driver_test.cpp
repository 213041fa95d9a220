// Finding the CUDA driver: what is wrong with one that will not do is said, with what would.
#include <fstream>

#include "tests/unit/devices/cuda_fixture.hpp"

namespace heddle::dev {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Status refusal_of(const std::string& file) {
  Status why;
  EXPECT_EQ(cuda::open_driver(file, &why), nullptr);
  return why;
}

// B4: without a driver, `unavailable` says what is missing
TEST(CudaDriverTest, IsNotThere) {
  const Status why = refusal_of("/nowhere/libcuda.so.1");
  EXPECT_EQ(why.code(), ErrorCode::unavailable);
  EXPECT_THAT(why.to_string(),
              AllOf(HasSubstr("there is no CUDA driver"), HasSubstr("/nowhere/libcuda.so.1"),
                    HasSubstr("cc or gccjit")));
}

// B4: a file that is no library, and a library that is no driver
TEST(CudaDriverTest, IsSomethingElse) {
  const TempDirectory here;
  const std::string file = (here.path() / "text").string();
  std::ofstream(file) << "no library";
  EXPECT_EQ(refusal_of(file).code(), ErrorCode::unavailable);
  EXPECT_THAT(refusal_of(file).to_string(), HasSubstr(file));
  EXPECT_EQ(refusal_of("libm.so.6").code(), ErrorCode::unavailable);
  EXPECT_THAT(refusal_of("libm.so.6").to_string(), HasSubstr("libm.so.6 is no CUDA driver"));
}

// B4: one that is too old says which it is, and which is needed
TEST_F(CudaTest, OldDriversAreRefused) {
  gpu->look({.version = 11080});
  EXPECT_EQ(refusal().code(), ErrorCode::unavailable);
  EXPECT_THAT(refusal().to_string(),
              AllOf(HasSubstr("is of CUDA 11.8"), HasSubstr("12.0 or later is needed")));
}

// B4: one that lacks a function names it, with the version that has it
TEST_F(CudaTest, WhatADriverLacksIsNamed) {
  gpu->look({.missing = "cuMemPoolCreate"});
  EXPECT_EQ(refusal().code(), ErrorCode::unavailable);
  EXPECT_THAT(refusal().to_string(),
              AllOf(HasSubstr("lacks cuMemPoolCreate"), HasSubstr("since CUDA 11.2"),
                    HasSubstr("of CUDA 12.4")));
}

// B4: a driver without a GPU, by either answer, and one that does not start
TEST_F(CudaTest, ThereMayBeNoGpu) {
  gpu->look({.devices = 0});
  EXPECT_THAT(refusal().to_string(), HasSubstr("finds no GPU"));
  gpu->look({.init_result = cuda::no_device});
  EXPECT_THAT(refusal().to_string(), HasSubstr("finds no GPU"));
  gpu->look({.init_result = 201});
  EXPECT_EQ(refusal().code(), ErrorCode::unavailable);
  EXPECT_THAT(refusal().to_string(),
              AllOf(HasSubstr("cuInit"), HasSubstr("CUDA_ERROR_INVALID_CONTEXT (201)")));
}

// B4: what failed once may do later, and what is open stays
TEST_F(CudaTest, ADriverIsOpenedOnce) {
  gpu->look({.devices = 0});
  EXPECT_EQ(refusal().code(), ErrorCode::unavailable);
  gpu->look({});
  Status why;
  const auto driver = cuda::open_driver(file, &why);
  ASSERT_NE(driver, nullptr) << why.to_string();
  EXPECT_EQ(driver->version, 12040);
  EXPECT_EQ(driver->devices, 2);
  why = Status(ErrorCode::internal, "of before");
  EXPECT_EQ(cuda::open_driver(file, &why), driver);
  EXPECT_TRUE(why.ok());
}

// B4: a GPU beyond those that there are, and one without what heddle needs
TEST_F(CudaTest, OtherGpusAreRefused) {
  Status why;
  const auto driver = cuda::open_driver(file, &why);
  for (const int ordinal : {-1, 2}) {
    EXPECT_EQ(make_cuda_device(driver, ordinal, &why), nullptr);
    EXPECT_EQ(why.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(why.to_string(), AllOf(HasSubstr("no GPU " + std::to_string(ordinal)),
                                       HasSubstr("has 2, numbered from 0")));
  }
  gpu->look({.pools = false});
  EXPECT_EQ(make_cuda_device(driver, 1, &why), nullptr);
  EXPECT_EQ(why.code(), ErrorCode::unavailable);
  EXPECT_THAT(why.to_string(), HasSubstr("GPU 1 (Stand-in) has no pools of memory"));
}

// B4: whichever step of opening a GPU fails, it says so and leaves nothing
TEST_F(CudaTest, EachStepOfOpeningMayFail) {
  Status why;
  const auto driver = cuda::open_driver(file, &why);
  for (const char* const function : {"cuDeviceGet", "cuDeviceTotalMem", "cuDevicePrimaryCtxRetain",
                                     "cuMemPoolCreate", "cuMemPoolSetAccess", "cuStreamCreate"}) {
    gpu->fail(function, 0, cuda::out_of_memory);
    EXPECT_EQ(make_cuda_device(driver, 0, &why), nullptr) << function;
    EXPECT_EQ(why.code(), ErrorCode::exhausted) << function;
    EXPECT_THAT(why.to_string(), AllOf(HasSubstr(function), HasSubstr("GPU 0"))) << function;
  }
  const auto device = make_cuda_device(driver, 0, &why);
  ASSERT_NE(device, nullptr);
  EXPECT_EQ(device->properties().name, "GPU 0 (Stand-in)");
  EXPECT_EQ(device->properties().copy_engines, 2u);
  EXPECT_EQ(device->properties().parallel_width, 8u);
  EXPECT_NE(device->properties().memory_space, host_memory_space);
  EXPECT_NE(device->properties().completion_domain, 0u);
}

}  // namespace
}  // namespace heddle::dev
