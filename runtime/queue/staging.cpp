// See runtime/queue/staging.hpp.
#include "runtime/queue/staging.hpp"

#include <algorithm>
#include <bit>
#include <new>

namespace heddle::rt {

Status Staging::queue(const std::shared_ptr<dev::PhysicalDevice>& physical,
                      std::shared_ptr<Stream>* queue) noexcept {
  try {
    const std::lock_guard lock(mutex_);
    auto at = std::ranges::find(queues_, physical, &Stream::physical);
    if (at == queues_.end()) {
      // Drops queues of devices without another user, whose backends are gone.
      std::erase_if(queues_, [](const std::shared_ptr<Stream>& kept) {
        return kept.use_count() == 1 && kept->physical().use_count() == 1;
      });
      std::shared_ptr<Stream> made;
      if (Status status = Stream::open(physical, &made); !status.ok()) return status;
      at = queues_.insert(queues_.end(), std::move(made));
    }
    *queue = *at;
    return {};
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "no host memory to keep a queue");
  }
}

std::shared_ptr<const StagingMemory> Staging::memory(std::size_t bytes) noexcept {
  // Half the bytes: a transfer of two pieces reads one piece while writing the other.
  const std::size_t block =
      std::bit_ceil(std::clamp((bytes + 1) / 2, least_block_bytes, most_block_bytes));
  try {
    const std::lock_guard lock(mutex_);
    if (!memory_ || memory_->block_bytes < block) {
      memory_ = std::make_shared<const StagingMemory>(
          StagingMemory{std::make_unique_for_overwrite<std::byte[]>(2 * block), block});
    }
    return memory_;
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

}  // namespace heddle::rt
