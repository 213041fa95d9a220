// See cuda_device.hpp.
#include "devices/cuda_device.hpp"

#include <utility>

#include "devices/cuda_ends.hpp"
#include "devices/cuda_gpu.hpp"
#include "devices/cuda_queue.hpp"

namespace heddle::dev {
namespace cuda {
namespace {

class CudaDevice final : public PhysicalDevice {
 public:
  CudaDevice(const std::shared_ptr<Gpu>& gpu, bool check_each)
      : gpu_(gpu), ends_(Ends::make(gpu, check_each)) {
    properties_.name = gpu->name();
    properties_.memory_space = reinterpret_cast<std::uintptr_t>(gpu.get());
    properties_.bytes_total = gpu->bytes();
    properties_.copy_engines = static_cast<unsigned>(gpu->attribute(cuda::copy_engines));
    properties_.parallel_width = static_cast<unsigned>(gpu->attribute(cuda::multiprocessors));
    properties_.completion_domain = reinterpret_cast<std::uintptr_t>(ends_.get());
  }

  const Properties& properties() const noexcept override { return properties_; }
  Status allocate(std::size_t bytes, void** data) noexcept override {
    return gpu_->allocate(bytes, data);
  }
  void release(void* data, std::size_t /*bytes*/) noexcept override { gpu_->release(data); }
  Status new_queue(Completions& completions, std::unique_ptr<Queue>* queue) noexcept override {
    return make_cuda_queue(ends_, completions, queue);
  }
  Status usable() noexcept override { return ends_->usable(); }
  bool is_peer_of(const PhysicalDevice& other) const noexcept override {
    const auto* const gpu = dynamic_cast<const CudaDevice*>(&other);
    return gpu != nullptr && gpu_->reaches(*gpu->gpu_);
  }
  Status load(const Image& image, const LoadOptions& options,
              std::shared_ptr<const Module>* module) noexcept override {
    return CudaModule::load(gpu_, image, options, module);
  }

 private:
  const std::shared_ptr<Gpu> gpu_;
  const std::shared_ptr<Ends> ends_;
  Properties properties_;
};

}  // namespace
}  // namespace cuda

int cuda_capability(const cuda::Driver& driver, int ordinal) noexcept {
  cuda::Ordinal device = 0;
  int major = 0, minor = 0;
  const bool told =
      driver.device_get(&device, ordinal) == cuda::success &&
      driver.device_attribute(&major, cuda::capability_major, device) == cuda::success &&
      driver.device_attribute(&minor, cuda::capability_minor, device) == cuda::success;
  return told ? 10 * major + minor : 0;
}

std::shared_ptr<PhysicalDevice> make_cuda_device(std::shared_ptr<const cuda::Driver> driver,
                                                 int ordinal, Status* why, bool check_each) {
  const auto gpu = cuda::Gpu::open(std::move(driver), ordinal, why);
  return gpu ? std::make_shared<cuda::CudaDevice>(gpu, check_each) : nullptr;
}

}  // namespace heddle::dev
