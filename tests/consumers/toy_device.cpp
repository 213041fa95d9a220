// The toy device: malloc'd memory behind addresses that are moved out of the host's reach.
#include "toy_device.hpp"

#include <heddle/heddle.hpp>

#include <cstdlib>
#include <cstring>

namespace toy {
namespace {

using heddle::ErrorCode;
using heddle::Status;

constexpr std::size_t bytes_total = std::size_t{1} << 32;
/// Added to host addresses: the sum is no canonical x86-64 address.
constexpr std::uintptr_t remote = std::uintptr_t{1} << 60;

void* to_remote(void* host) noexcept {
  return reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(host) + remote);
}
void* to_local(const void* device) noexcept {
  return device == nullptr
             ? nullptr
             : reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(device) - remote);
}

class Queue final : public heddle::dev::Queue {
 public:
  Status zero(void* data, std::size_t bytes) noexcept override {
    std::memset(to_local(data), 0, bytes);
    return {};
  }
  Status from_host(void* data, const void* host, std::size_t bytes) noexcept override {
    std::memcpy(to_local(data), host, bytes);
    ++operations().to_device;
    return {};
  }
  Status to_host(void* host, const void* data, std::size_t bytes) noexcept override {
    std::memcpy(host, to_local(data), bytes);
    ++operations().to_host;
    return {};
  }
  Status copy(void* to, const void* from, std::size_t bytes) noexcept override {
    std::memmove(to_local(to), to_local(from), bytes);
    ++operations().copies;
    return {};
  }
  Status launch(const heddle::dev::Module& module, std::size_t kernel,
                const heddle_kernel_args& args) noexcept override {
    try {
      std::vector<heddle_kernel_buffer> local(args.buffers, args.buffers + args.num_buffers);
      for (heddle_kernel_buffer& buffer : local) buffer.data = to_local(buffer.data);
      heddle_kernel_args moved = args;
      moved.buffers = local.data();
      module.host_function(kernel)(&moved);
    } catch (const std::bad_alloc&) {
      return Status(ErrorCode::exhausted, "toy device: no memory for a kernel's table");
    }
    ++operations().launches;
    if (args.status == nullptr || args.status->code == 0) return {};
    return Status(ErrorCode::device_failed,
                  "toy device: kernel reported code " + std::to_string(args.status->code));
  }
};

class Device final : public heddle::dev::PhysicalDevice {
 public:
  Device() {
    properties_.name = "toy";
    properties_.memory_space = reinterpret_cast<std::uintptr_t>(this);  // shared with no other
    properties_.bytes_total = bytes_total;
    properties_.parallel_width = 4;
  }
  const heddle::dev::Properties& properties() const noexcept override { return properties_; }

  Status allocate(std::size_t bytes, void** data) noexcept override {
    void* const host = bytes > bytes_total ? nullptr : std::aligned_alloc(64, (bytes + 63) & ~63UL);
    *data = host == nullptr ? nullptr : to_remote(host);
    if (host != nullptr) return {};
    return Status(ErrorCode::exhausted,
                  "toy device: no memory for " + std::to_string(bytes) + " bytes");
  }
  void release(void* data, std::size_t /*bytes*/) noexcept override { std::free(to_local(data)); }
  Status new_queue(heddle::dev::Completions& /*completions*/,
                   std::unique_ptr<heddle::dev::Queue>* queue) noexcept override {
    return heddle::dev::make_queue<Queue>(queue);
  }
  Status load(const heddle::Image& image, const heddle::dev::LoadOptions& options,
              std::shared_ptr<const heddle::dev::Module>* module) noexcept override {
    ++operations().loads;
    return heddle::dev::load_on_host(image, options, module);
  }

 private:
  heddle::dev::Properties properties_;
};

}  // namespace

Operations& operations() noexcept {
  static Operations counted;
  return counted;
}

std::vector<std::shared_ptr<heddle::dev::PhysicalDevice>> devices() {
  return {std::make_shared<Device>()};
}

void register_toy() {
  heddle::BackendSpec spec;
  spec.name = "toy";
  spec.compiler = "cc";
  spec.mode = heddle::sched::Mode::threaded;
  spec.devices = devices;
  heddle::register_backend(std::move(spec));
}

}  // namespace toy
