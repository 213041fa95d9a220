// Size classes and accounting of device memory.
#include "devices/memory_pool.hpp"

#include <algorithm>
#include <bit>
#include <limits>

namespace heddle::dev {

MemoryPool::MemoryPool(std::shared_ptr<PhysicalDevice> device) : device_(std::move(device)) {}
MemoryPool::~MemoryPool() { trim(); }

std::size_t MemoryPool::size_class(std::size_t bytes) noexcept {
  constexpr std::size_t smallest = 64;
  if (bytes <= smallest) return smallest;
  if (bytes > std::numeric_limits<std::size_t>::max() / 4) return bytes;  // refused by the device
  const std::size_t step = std::max(smallest, std::bit_ceil(bytes) / 8);
  return (bytes + step - 1) / step * step;
}

Status MemoryPool::allocate(std::size_t bytes, void** data) noexcept {
  *data = nullptr;
  if (bytes == 0) return {};
  const std::size_t size = size_class(bytes);
  {
    const std::lock_guard lock(mutex_);
    if (const auto at = free_.find(size); at != free_.end() && !at->second.empty()) {
      *data = at->second.back();
      at->second.pop_back();
      use_.cached -= size;
    }
  }
  if (*data == nullptr) {
    Status status = device_->allocate(size, data);
    if (!status.ok()) {
      trim();
      status = device_->allocate(size, data);
    }
    if (!status.ok()) return status;
  }
  const std::lock_guard lock(mutex_);
  use_.in_use += bytes;
  use_.peak = std::max(use_.peak, use_.in_use);
  return {};
}

void MemoryPool::release(void* data, std::size_t bytes) noexcept {
  if (data == nullptr) return;
  const std::size_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  use_.in_use -= bytes;
  try {
    free_[size].push_back(data);
    use_.cached += size;
  } catch (...) {  // no memory to remember it by
    device_->release(data, size);
  }
}

MemoryUse MemoryPool::use() const noexcept {
  const std::lock_guard lock(mutex_);
  return use_;
}

void MemoryPool::trim() noexcept {
  const std::lock_guard lock(mutex_);
  for (const auto& [size, blocks] : free_) {
    for (void* const block : blocks) device_->release(block, size);
  }
  free_.clear();
  use_.cached = 0;
}

}  // namespace heddle::dev
