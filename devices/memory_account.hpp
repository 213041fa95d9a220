// MemoryAccount: a bound shared by several virtual devices, and the bytes taken of it. Any thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "devices/device.hpp"
#include "devices/memory_limit.hpp"

namespace heddle::dev {

class MemoryCache;

/// A holder of memory: a tensor on a device, or buffers without a tensor.
struct MemoryHolder {
  std::string label;         ///< "tensor 'x' f32[4]"
  std::uint64_t in_use = 0;  ///< bytes of live buffers, as requested
  std::uint64_t peak = 0;    ///< the maximum of in_use
};

class MemoryAccount {
 public:
  /// The result of `limit` may change; `limit` must not throw after its first call, made here.
  explicit MemoryAccount(std::function<MemoryLimit()> limit) : limit_(std::move(limit)) {
    static_cast<void>(limit_());
  }
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  void join(MemoryCache& cache);
  void leave(MemoryCache& cache) noexcept;

  /// false: the bytes would exceed the bound, and none are taken.
  [[nodiscard]] bool take(std::uint64_t bytes) noexcept;
  void give_back(std::uint64_t bytes) noexcept;
  /// Returns memory kept for reuse to the devices, unless tasks use it.
  void trim() const noexcept;
  /// Why a block of `bytes` was refused: the bound, the bytes taken, and the largest holders.
  /// Throws std::bad_alloc.
  [[nodiscard]] std::string refusal(std::uint64_t bytes) const;

 private:
  const std::function<MemoryLimit()> limit_;
  std::atomic<std::uint64_t> taken_{0};  // bytes of blocks, including blocks kept for reuse
  std::vector<MemoryCache*> caches_;     // guarded by a lock shared by the accounts
};

/// The bounds on memory of `device`: the host's memory, shared by every device of the process in
/// that memory space, and the device's bytes_total, shared by its virtual devices. Throws
/// std::bad_alloc.
[[nodiscard]] std::vector<std::shared_ptr<MemoryAccount>> accounts_of(const PhysicalDevice& device);

}  // namespace heddle::dev
