// A device that counts, and the memory of virtual ones on it.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <utility>

#include "devices/memory_cache.hpp"

namespace heddle::dev {

/// Knows what it gave out; has `capacity` bytes.
class CountingDevice final : public PhysicalDevice {
 public:
  explicit CountingDevice(std::uint64_t capacity, std::uint64_t declared = 0)
      : capacity_(capacity) {
    properties_ = {"counting", 77, declared, 0, 1};
  }
  const Properties& properties() const noexcept override { return properties_; }
  Status allocate(std::size_t bytes, void** data) noexcept override {
    const std::lock_guard lock(mutex_);
    ++asked;
    if (!broken.ok()) return broken;
    if (bytes > capacity_ - taken_) return Status(ErrorCode::exhausted, "the device is full");
    void* const block = std::aligned_alloc(64, bytes);
    try {
      sizes_[block] = bytes;
    } catch (const std::bad_alloc&) {
      std::free(block);
      return Status(ErrorCode::exhausted, "the device keeps no account");
    }
    taken_ += bytes;
    most = std::max(most, taken_);
    *data = block;
    return {};
  }
  void release(void* data, std::size_t bytes) noexcept override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(sizes_.at(data), bytes);
    sizes_.erase(data);
    taken_ -= bytes;
    std::free(data);
  }
  Status new_queue(Completions& /*completions*/,
                   std::unique_ptr<Queue>* /*queue*/) noexcept override {
    return Status(ErrorCode::unavailable, "none here");
  }
  [[nodiscard]] std::uint64_t taken() const {
    const std::lock_guard lock(mutex_);
    return taken_;
  }

  int asked = 0;
  Status broken;  // what it answers, if it is
  std::uint64_t most = 0;

 private:
  Properties properties_;
  const std::uint64_t capacity_;
  mutable std::mutex mutex_;
  std::uint64_t taken_ = 0;
  std::map<void*, std::size_t> sizes_;
};

/// All bounds of a test.
inline std::shared_ptr<const std::string> the_source() {
  return std::make_shared<const std::string>("the test's bound");
}

inline std::shared_ptr<CountingDevice> device_of(std::uint64_t capacity,
                                                 std::uint64_t declared = 0) {
  return std::make_shared<CountingDevice>(capacity, declared);
}

inline MemoryCacheOptions bounded(std::uint64_t bytes) {
  return {"dev:0.0", 1, {bytes, the_source()}};
}

/// A virtual device's, with a pool of its own unless one is given.
class Cache : public MemoryCache {
 public:
  explicit Cache(std::shared_ptr<PhysicalDevice> device, MemoryCacheOptions options = {},
                 std::shared_ptr<MemoryPool> pool = std::make_shared<MemoryPool>())
      : MemoryCache(std::move(pool), std::move(device), std::move(options)) {}

  BlockRef take(std::size_t bytes, const char* label = "a buffer",
                LastUses may_have = LastUses::ordered) {
    BlockRef block;
    const Status status = allocate(bytes, &block, {0, label}, may_have);
    EXPECT_TRUE(status.ok()) << status.to_string();
    return block;
  }
  std::string refusal(std::size_t bytes) {
    BlockRef block;
    const Status status = allocate(bytes, &block, {0, "too much"});
    EXPECT_EQ(status.code(), ErrorCode::exhausted);
    EXPECT_FALSE(block);
    return status.to_string();
  }
};

}  // namespace heddle::dev
