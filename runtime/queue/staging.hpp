// What transfers of a device take beside its own queue: queues of other devices, and host memory to
// stage bytes in. Kept for the transfers that follow. Any thread.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <vector>

#include "runtime/queue/stream.hpp"

namespace heddle::rt {

/// Two blocks of host memory: one is filled while the other is emptied.
struct StagingMemory {
  std::unique_ptr<std::byte[]> data;
  std::size_t block_bytes = 0;
  [[nodiscard]] std::byte* block(std::size_t k) const noexcept {
    return data.get() + k % 2 * block_bytes;
  }
};

/// A transfer keeps what it is given until it has ended; one task at a time uses it.
class Staging {
 public:
  Staging() = default;
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// A queue of another physical device.
  [[nodiscard]] Status queue(const std::shared_ptr<dev::PhysicalDevice>& physical,
                             std::shared_ptr<Stream>* queue) noexcept;
  /// For a transfer of so many bytes, which goes through it in pieces. Null: there is none.
  [[nodiscard]] std::shared_ptr<const StagingMemory> memory(std::size_t bytes) noexcept;

  static constexpr std::size_t least_block_bytes = std::size_t{64} << 10;
  /// Large enough that a piece takes far longer than the calls that move it.
  static constexpr std::size_t most_block_bytes = std::size_t{4} << 20;

 private:
  std::mutex mutex_;  // guards what follows
  std::vector<std::shared_ptr<Stream>> queues_;
  std::shared_ptr<const StagingMemory> memory_;  // grow-only; queued transfers keep what they use
};

}  // namespace heddle::rt
