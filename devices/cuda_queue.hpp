// A stream, and modules with the kernels launched into it. cuda_device.hpp describes the arguments.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "devices/cuda_ends.hpp"
#include "devices/cuda_gpu.hpp"
#include "devices/device.hpp"

namespace heddle::dev::cuda {

/// An image loaded on a GPU. Any thread.
class CudaModule final : public Module {
 public:
  struct Kernel {
    Function function;
    LaunchShape shape;
    std::string name;  ///< for people
  };

  [[nodiscard]] static Status load(std::shared_ptr<Gpu> gpu, const Image& image,
                                   const LoadOptions& options,
                                   std::shared_ptr<const Module>* module) noexcept;
  explicit CudaModule(std::shared_ptr<Gpu> gpu) : gpu_(std::move(gpu)) {}
  ~CudaModule() override;

  [[nodiscard]] const Kernel& kernel(std::size_t number) const noexcept { return kernels_[number]; }

 private:
  [[nodiscard]] Status take(const Image& image, const LoadOptions& options);

  const std::shared_ptr<Gpu> gpu_;
  DriverModule module_ = nullptr;
  std::vector<Kernel> kernels_;
};

/// Implements PhysicalDevice::new_queue().
[[nodiscard]] Status make_cuda_queue(const std::shared_ptr<Ends>& ends, Completions& completions,
                                     std::unique_ptr<Queue>* queue) noexcept;

}  // namespace heddle::dev::cuda
