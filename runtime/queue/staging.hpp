// Resources for a device's transfers beside its own queue: queues of other devices, and host memory
// for staging. Kept for later transfers. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/queue/stream.hpp"

namespace heddle::rt {

/// Two blocks of host memory, filled and emptied in turn.
struct StagingMemory {
  std::unique_ptr<std::byte[]> data;
  std::size_t block_bytes = 0;
  [[nodiscard]] std::byte* block(std::size_t k) const noexcept {
    return data.get() + k % 2 * block_bytes;
  }
};

/// A transfer holds the resources until its end; one task at a time uses them.
class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// A queue of another physical device. `exhausted` if there is no memory, or the device's error.
  [[nodiscard]] Status queue(const std::shared_ptr<dev::PhysicalDevice>& physical,
                             std::shared_ptr<Stream>* queue) noexcept;
  /// Memory for a transfer of `bytes`, moved in pieces. Null: no memory.
  [[nodiscard]] std::shared_ptr<const StagingMemory> memory(std::size_t bytes) noexcept;

  static constexpr std::size_t least_block_bytes = std::size_t{64} << 10;
  /// Large enough for a piece to take far longer than the calls that move it.
  static constexpr std::size_t most_block_bytes = std::size_t{4} << 20;

 private:
  std::mutex mutex_;  // guards the members below
  std::vector<std::shared_ptr<Stream>> queues_;
  std::shared_ptr<const StagingMemory> memory_;  // only grows; queued transfers hold references
};

}  // namespace heddle::rt
