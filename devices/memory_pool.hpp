// MemoryPool: a device's memory, reused. First touch of fresh memory is up to 100 times slower than
// reuse (docs/performance.md), so released blocks are kept by size class. Any thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "devices/device.hpp"

namespace heddle::dev {

struct MemoryUse {
  std::uint64_t in_use = 0;  ///< bytes of live buffers, as asked for
  std::uint64_t peak = 0;    ///< the most that in_use has been
  std::uint64_t cached = 0;  ///< bytes kept for reuse
};

class MemoryPool {
 public:
  explicit MemoryPool(std::shared_ptr<PhysicalDevice> device);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// A block of at least `bytes` (0 gives a null block), contents undefined. Gives cached blocks
  /// back to the device and tries again before it says `exhausted`.
  [[nodiscard]] Status allocate(std::size_t bytes, void** data) noexcept;
  /// `bytes` as asked for.
  void release(void* data, std::size_t bytes) noexcept;
  [[nodiscard]] MemoryUse use() const noexcept;
  /// Gives all cached blocks back to the device.
  void trim() noexcept;

  /// The size that `bytes` are rounded up to: four classes per power of two, at least 64.
  [[nodiscard]] static std::size_t size_class(std::size_t bytes) noexcept;

 private:
  const std::shared_ptr<PhysicalDevice> device_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>> free_;  // by size class
  MemoryUse use_;
};

}  // namespace heddle::dev
