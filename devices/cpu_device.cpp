// The CPU: host memory, kernels called directly on the virtual device's thread.
#include <unistd.h>

#include <cstdlib>
#include <cstring>

#include "devices/device.hpp"
#include "heddle/host_memory.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle::dev {
namespace {

class CpuQueue final : public Queue {
 public:
  Status zero(void* data, std::size_t bytes) noexcept override {
    std::memset(data, 0, bytes);
    return {};
  }
  Status from_host(void* data, const void* host, std::size_t bytes) noexcept override {
    return copy(data, host, bytes);
  }
  Status to_host(void* host, const void* data, std::size_t bytes) noexcept override {
    return copy(host, data, bytes);
  }
  Status copy(void* to, const void* from, std::size_t bytes) noexcept override {
    std::memmove(to, from, bytes);
    return {};
  }
  Status launch(const Module& module, std::size_t kernel,
                const heddle_kernel_args& args) noexcept override {
    const sched::DefaultFloating floating;
    module.host_function(kernel)(&args);
    return {};
  }
};

/// The cores of this process share loaded modules.
constexpr char code_space = 0;

class CpuDevice final : public PhysicalDevice {
 public:
  CpuDevice() {
    properties_.name = "cpu";
    properties_.code_space = &code_space;
    properties_.parts_at_once = true;
    const long pages = ::sysconf(_SC_PHYS_PAGES);
    const long page = ::sysconf(_SC_PAGESIZE);
    if (pages > 0 && page > 0)
      properties_.bytes_total =
          static_cast<std::uint64_t>(pages) * static_cast<std::uint64_t>(page);
  }

  const Properties& properties() const noexcept override { return properties_; }

  Status allocate(std::size_t bytes, void** data) noexcept override {
    // The pools of this process ensure that no more is granted than the machine has.
    *data = allocate_host(bytes);
    if (*data != nullptr) return {};
    return Status(ErrorCode::exhausted,
                  [bytes] { return "no memory for " + std::to_string(bytes) + " bytes"; });
  }
  void release(void* data, std::size_t /*bytes*/) noexcept override { std::free(data); }
  Status new_queue(Completions& /*completions*/, std::unique_ptr<Queue>* queue) noexcept override {
    return make_queue<CpuQueue>(queue);
  }

 private:
  Properties properties_;
};

}  // namespace

std::shared_ptr<PhysicalDevice> make_cpu_device() { return std::make_shared<CpuDevice>(); }

}  // namespace heddle::dev
