// MemoryAccount: a bound that several virtual devices share, and what they have taken of it. Any
// thread.
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

/// A holder of memory: a tensor on a device, or buffers without one.
struct MemoryHolder {
  std::string label;         ///< "tensor 'x' f32[4]"
  std::uint64_t in_use = 0;  ///< bytes of live buffers, as asked for
  std::uint64_t peak = 0;    ///< the most that in_use has been
};

class MemoryAccount {
 public:
  /// `limit` may change; it does not throw after its first call, which is made here.
  explicit MemoryAccount(std::function<MemoryLimit()> limit) : limit_(std::move(limit)) {
    static_cast<void>(limit_());
  }
  MemoryAccount(const MemoryAccount&) = delete;
  MemoryAccount& operator=(const MemoryAccount&) = delete;

  void join(MemoryCache& cache);
  void leave(MemoryCache& cache) noexcept;

  /// false: it would pass the bound, and nothing is taken.
  [[nodiscard]] bool take(std::uint64_t bytes) noexcept;
  void give_back(std::uint64_t bytes) noexcept;
  /// What is kept for reuse and used by no task goes back to the devices.
  void trim() const noexcept;
  /// Why a block of so many bytes was refused: the bound, what is taken of it, and the largest
  /// holders. Throws std::bad_alloc.
  [[nodiscard]] std::string refusal(std::uint64_t bytes) const;

 private:
  const std::function<MemoryLimit()> limit_;
  std::atomic<std::uint64_t> taken_{0};  // bytes of blocks, those kept for reuse included
  std::vector<MemoryCache*> caches_;     // guarded by one lock for all accounts
};

/// What bounds memory of `device`: the host's memory, which all devices in its memory space share
/// over all of the process, and its own bytes_total, which its virtual devices share. Throws
/// std::bad_alloc.
[[nodiscard]] std::vector<std::shared_ptr<MemoryAccount>> accounts_of(const PhysicalDevice& device);

}  // namespace heddle::dev
