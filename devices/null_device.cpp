// The null device: accepts every operation and does nothing. The memory exists, which makes
// addresses valid.
#include "devices/device.hpp"

namespace heddle::dev {
namespace {

class NullQueue final : public Queue {
 public:
  Status zero(void* /*data*/, std::size_t /*bytes*/) noexcept override { return {}; }
  Status from_host(void* /*data*/, const void* /*host*/, std::size_t /*bytes*/) noexcept override {
    return {};
  }
  Status to_host(void* /*host*/, const void* /*data*/, std::size_t /*bytes*/) noexcept override {
    return {};
  }
  Status copy(void* /*to*/, const void* /*from*/, std::size_t /*bytes*/) noexcept override {
    return {};
  }
  Status launch(const Module& /*module*/, std::size_t /*kernel*/,
                const heddle_kernel_args& /*args*/) noexcept override {
    return {};
  }
};

class NullDevice final : public PhysicalDevice {
 public:
  const Properties& properties() const noexcept override { return properties_; }
  Status allocate(std::size_t bytes, void** data) noexcept override {
    return memory_->allocate(bytes, data);
  }
  void release(void* data, std::size_t bytes) noexcept override { memory_->release(data, bytes); }
  Status new_queue(Completions& /*completions*/, std::unique_ptr<Queue>* queue) noexcept override {
    return make_queue<NullQueue>(queue);
  }

 private:
  const std::shared_ptr<PhysicalDevice> memory_ = make_cpu_device();
  // A separate memory space: its contents are not worth reading in place.
  Properties properties_{"null", ~std::uint64_t{0}, memory_->properties().bytes_total, 0, 1};
};

}  // namespace

std::shared_ptr<PhysicalDevice> make_null_device() { return std::make_shared<NullDevice>(); }

}  // namespace heddle::dev
