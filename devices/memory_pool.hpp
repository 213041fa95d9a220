// MemoryPool: a device's memory, reused and accounted. First touch of fresh memory is up to 100
// times slower than reuse (docs/performance.md), so released blocks are kept by size class. Any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "devices/device.hpp"
#include "devices/memory_account.hpp"

namespace heddle::dev {

struct MemoryUse {
  std::uint64_t in_use = 0;  ///< bytes of live buffers, as asked for
  std::uint64_t peak = 0;    ///< the most that in_use has been
  std::uint64_t cached = 0;  ///< bytes kept for reuse
};

struct MemoryPoolOptions {
  std::string name;  ///< the virtual device's: messages say it
  MemoryLimit own;   ///< bounds this pool alone
};

class MemoryPool {
 public:
  explicit MemoryPool(std::shared_ptr<PhysicalDevice> device, MemoryPoolOptions options = {});
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// For whom a block is: tensors by id, which is 0 for buffers without one, and by label.
  using Holder = std::pair<std::uint64_t, std::string>;
  /// A block of at least `bytes` (0 gives a null block), contents undefined. Where a bound would be
  /// passed or the device has none, all pools that share the bound give back what they keep, before
  /// it says `exhausted`: what bounds it, and the largest holders.
  [[nodiscard]] Status allocate(std::size_t bytes, void** data, const Holder& holder = {}) noexcept;
  void release(void* data) noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return options_.name; }
  [[nodiscard]] MemoryUse use() const noexcept;
  /// Those that have memory, and a thousand of those that had; most in use first. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::vector<MemoryHolder> holders() const;
  /// Gives all cached blocks back to the device.
  void trim() noexcept;

  /// The size that `bytes` are rounded up to: four classes per power of two, at least 64. Where a
  /// bound leaves no room for that, a block has its bytes alone, rounded up to 64.
  [[nodiscard]] static std::size_t size_class(std::size_t bytes) noexcept;

 private:
  struct Count {
    std::uint64_t in_use = 0, peak = 0;
  };
  struct Block {
    std::size_t bytes;  ///< as asked for
    std::size_t size;
    std::map<Holder, Count>::iterator holder;
  };

  Status allocate_block(std::size_t bytes, void** data, const Holder& holder);
  [[nodiscard]] void* take_cached(std::size_t size) noexcept;
  Status take_fresh(std::size_t size, void** data);
  [[nodiscard]] MemoryAccount* take_from_accounts(std::size_t size) noexcept;
  void trim_all() noexcept;
  void leave() noexcept;
  void give_back(void* data, std::size_t size) noexcept;
  void note(void* data, std::size_t bytes, std::size_t size, const Holder& holder);

  const std::shared_ptr<PhysicalDevice> device_;
  const MemoryPoolOptions options_;
  std::vector<std::shared_ptr<MemoryAccount>> accounts_;
  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<void*>>
      free_;                                 // guarded by mutex_, as all below; by size class
  std::unordered_map<void*, Block> blocks_;  // in use
  std::map<Holder, Count> holders_;
  MemoryUse use_;
};

}  // namespace heddle::dev
