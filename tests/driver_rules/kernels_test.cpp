// Rules of modules and launches.
#include <array>

#include "tests/driver_rules/rules_fixture.hpp"

namespace heddle::driver_rules {
namespace {

class KernelRulesTest : public RulesTest {
 protected:
  /// Launches `add`, of no effect, in this shape.
  [[nodiscard]] Result launch(const Work& work, std::array<unsigned, 3> groups,
                              std::array<unsigned, 3> threads, unsigned shared_bytes = 0) const {
    std::uint64_t words[] = {x_.address(), 0};
    std::size_t bytes = sizeof words;
    void* extra[] = {launch_buffer, words, launch_buffer_bytes, &bytes, launch_end};
    return driver.launch(gpu.kernels.at("add"), groups[0], groups[1], groups[2], threads[0],
                         threads[1], threads[2], shared_bytes, work.stream(), nullptr, extra);
  }
  [[nodiscard]] unsigned limit(int attribute) const {
    int value = 0;
    EXPECT_CUDA(driver.device_attribute(&value, attribute, gpu.device));
    return static_cast<unsigned>(value);
  }

 private:
  const GpuNumber x_;
};

// Execution Control, cuLaunchKernel: kernel parameters "will be copied" at the call; the caller may
// use the buffer of `extra` again.
TEST_F(KernelRulesTest, ArgumentsAreTakenAtTheCall) {
  const Work work;
  const GpuNumber x;
  Gate gate;
  gate.hold(work);
  std::uint64_t words[] = {x.address(), 5};
  std::size_t bytes = sizeof words;
  void* extra[] = {launch_buffer, words, launch_buffer_bytes, &bytes, launch_end};
  EXPECT_CUDA(
      driver.launch(gpu.kernels.at("add"), 1, 1, 1, 1, 1, 1, 0, work.stream(), nullptr, extra));
  words[0] = 0;
  words[1] = 100;
  gate.open();
  work.synchronize();
  EXPECT_EQ(x.value(), 5);
}

// Execution Control, cuLaunchKernel returns CUDA_ERROR_INVALID_VALUE beyond the limits that
// CU_DEVICE_ATTRIBUTE_MAX_* tell; the context stays usable.
TEST_F(KernelRulesTest, LaunchesBeyondTheLimitsAreRefused) {
  const Work work;
  const unsigned threads = limit(threads_of_group);
  EXPECT_GE(threads, 1024u);
  EXPECT_CUDA(launch(work, {1, 1, 1}, {threads, 1, 1}));
  EXPECT_EQ(launch(work, {1, 1, 1}, {threads + 1, 1, 1}), invalid_value);
  EXPECT_EQ(launch(work, {1, 1, 1}, {threads, 2, 1}), invalid_value);
  EXPECT_EQ(launch(work, {1, 1, 1}, {1, 1, limit(threads_z) + 1}), invalid_value);
  EXPECT_EQ(launch(work, {0, 1, 1}, {1, 1, 1}), invalid_value);
  EXPECT_EQ(launch(work, {1, 1, 1}, {0, 1, 1}), invalid_value);
  EXPECT_EQ(launch(work, {limit(groups_x) + 1, 1, 1}, {1, 1, 1}), invalid_value);
  EXPECT_EQ(launch(work, {1, limit(groups_y) + 1, 1}, {1, 1, 1}), invalid_value);
  EXPECT_EQ(launch(work, {1, 1, limit(groups_z) + 1}, {1, 1, 1}), invalid_value);
  EXPECT_EQ(launch(work, {1, 1, 1}, {1, 1, 1}, 1 << 20), invalid_value);
  EXPECT_CUDA(launch(work, {2, 2, 2}, {2, 2, 2}));
  work.synchronize();
}

// Module Management, cuModuleLoadDataEx loads "the corresponding module module into the current
// context", cuModuleUnload unloads one module, cuModuleGetFunction returns CUDA_ERROR_NOT_FOUND "if
// no function of that name exists".
TEST_F(KernelRulesTest, ModulesComeAndGoByThemselves) {
  DriverModule module = nullptr;
  Function function = nullptr;
  EXPECT_CUDA(driver.module_load(&module, cuda.image.data(), 0, nullptr, nullptr));
  EXPECT_NE(module, gpu.module);
  EXPECT_EQ(driver.module_function(&function, module, "absent"), not_found);
  EXPECT_CUDA(driver.module_function(&function, module, "add"));
  EXPECT_CUDA(driver.module_unload(module));
  const Work work;
  const GpuNumber x;
  work.launch("add", {x.address(), 2});
  work.synchronize();
  EXPECT_EQ(x.value(), 2);
}

// Module Management, cuModuleLoadDataEx: the image is a "NULL-terminated PTX" or binary; others are
// refused, by CUDA_ERROR_INVALID_PTX or CUDA_ERROR_INVALID_IMAGE, and the context stays usable.
TEST_F(KernelRulesTest, OtherImagesAreRefused) {
  const std::string text(4096, 'x');
  DriverModule module = nullptr;
  EXPECT_NE(driver.module_load(&module, text.c_str(), 0, nullptr, nullptr), success);
  const GpuNumber x(3);
  EXPECT_EQ(x.value(), 3);
}

}  // namespace
}  // namespace heddle::driver_rules
