// The memory pool: alignment, size classes, reuse, bounds, accounting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "devices/memory_pool.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle::dev {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

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
std::shared_ptr<const std::string> the_source() {
  return std::make_shared<const std::string>("the test's bound");
}

std::shared_ptr<CountingDevice> device_of(std::uint64_t capacity, std::uint64_t declared = 0) {
  return std::make_shared<CountingDevice>(capacity, declared);
}

MemoryPoolOptions bounded(std::uint64_t bytes) { return {"dev:0.0", {bytes, the_source()}}; }

void* take(MemoryPool& pool, std::size_t bytes, const char* label = "a buffer") {
  void* data = nullptr;
  const Status status = pool.allocate(bytes, &data, {0, label});
  EXPECT_TRUE(status.ok()) << status.to_string();
  return data;
}

std::string refusal(MemoryPool& pool, std::size_t bytes) {
  void* data = &data;
  const Status status = pool.allocate(bytes, &data, {0, "too much"});
  EXPECT_EQ(status.code(), ErrorCode::exhausted);
  EXPECT_EQ(data, nullptr);
  return status.to_string();
}

// D2: whatever was asked for and wherever it comes from, new or again
TEST(MemoryPoolTest, BlocksAreAlignedTo64Bytes) {
  MemoryPool pool(make_cpu_device());
  for (int round = 0; round < 2; ++round) {
    std::vector<void*> blocks;
    for (std::size_t bytes = 1; bytes < (std::size_t{8} << 20); bytes = bytes * 5 / 3 + 1) {
      blocks.push_back(take(pool, bytes));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()) % 64, 0u) << bytes;
      static_cast<char*>(blocks.back())[bytes - 1] = 1;  // it is all there
    }
    for (void* const block : blocks) pool.release(block);
  }
}

TEST(MemoryPoolTest, FourSizeClassesPerPowerOfTwo) {
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 40); bytes = bytes * 9 / 8 + 1) {
    const std::size_t size = MemoryPool::size_class(bytes);
    EXPECT_GE(size, bytes);
    EXPECT_EQ(size % 64, 0u);
    EXPECT_LE(size, bytes + std::max<std::size_t>(63, bytes / 4)) << bytes;
    EXPECT_EQ(MemoryPool::size_class(size), size);
  }
  for (int power = 9; power < 40; ++power) {
    std::vector<std::size_t> classes;
    const std::size_t first = (std::size_t{1} << power) + 1, last = std::size_t{2} << power;
    for (std::size_t bytes = first; bytes <= last; bytes = classes.back() + 1)
      classes.push_back(MemoryPool::size_class(bytes));
    EXPECT_THAT(classes, SizeIs(4)) << power;
    EXPECT_EQ(classes.back(), last);
  }
  EXPECT_EQ(MemoryPool::size_class(SIZE_MAX), SIZE_MAX);  // and no overflow
}

// D2: a block comes back for any size of its class, and for no other
TEST(MemoryPoolTest, ReusesBlocksOfTheSameClass) {
  const auto device = device_of(1 << 20);
  MemoryPool pool(device);
  void* const first = take(pool, 1000);
  pool.release(first);
  EXPECT_EQ(pool.use().cached, MemoryPool::size_class(1000));
  EXPECT_EQ(take(pool, 1024), first);
  EXPECT_EQ(device->asked, 1);
  EXPECT_EQ(pool.use().cached, 0u);
  void* const second = take(pool, 1000);
  EXPECT_NE(second, first);
  pool.release(second);
  void* const other = take(pool, 100);
  EXPECT_EQ(device->asked, 3);
  for (void* const block : {first, other}) pool.release(block);
  pool.trim();
  EXPECT_EQ(pool.use().cached, 0u);
  EXPECT_EQ(device->taken(), 0u);
}

// D2: what is live and the most that was, in all and by tensor
TEST(MemoryPoolTest, CountsByHolder) {
  MemoryPool pool(device_of(1 << 20));
  void* data[4] = {};
  EXPECT_TRUE(pool.allocate(1000, &data[0], {1, "tensor 'x'"}).ok());
  EXPECT_TRUE(pool.allocate(500, &data[1], {1, "tensor 'x'"}).ok());
  EXPECT_TRUE(pool.allocate(600, &data[2], {2, "tensor 'x'"}).ok());  // another of that name
  EXPECT_TRUE(pool.allocate(0, &data[3], {3, "tensor 'empty'"}).ok());
  EXPECT_EQ(data[3], nullptr);
  pool.release(data[0]);
  pool.release(data[3]);
  EXPECT_EQ(pool.use().in_use, 1100u);
  EXPECT_EQ(pool.use().peak, 2100u);
  const auto holders = pool.holders();
  ASSERT_THAT(holders, SizeIs(2));
  EXPECT_EQ(holders[0].in_use, 600u);
  EXPECT_EQ(holders[0].peak, 600u);
  EXPECT_EQ(holders[1].in_use, 500u);
  EXPECT_EQ(holders[1].peak, 1500u);
  pool.release(data[1]);
  pool.release(data[2]);
  EXPECT_THAT(pool.holders(), SizeIs(2));  // their peaks are still known
  EXPECT_EQ(pool.use().in_use, 0u);
}

// D2: peaks are remembered of some, not of all that ever were
TEST(MemoryPoolTest, RemembersABoundedNumberOfHolders) {
  MemoryPool pool(device_of(1 << 20));
  for (std::uint64_t id = 1; id <= 5000; ++id) {
    void* data = nullptr;
    ASSERT_TRUE(pool.allocate(64, &data, {id, "tensor"}).ok());
    pool.release(data);
  }
  EXPECT_LE(pool.holders().size(), 1025u);
}

// D3: the bound of a pool is never passed by what it keeps; what keeps a request out is named
TEST(MemoryPoolTest, OwnBoundIsKeptAndNamed) {
  const auto device = device_of(1 << 20);
  MemoryPool pool(device, bounded(10'000));
  void* const most = take(pool, 6400, "tensor 'weights'");
  void* const some = take(pool, 1280, "tensor 'bias'");
  EXPECT_THAT(refusal(pool, 4000),
              AllOf(HasSubstr("10000 bytes (the test's bound)"),
                    HasSubstr("tensor 'weights' on dev:0.0 (6400), tensor 'bias'")));
  pool.release(most);
  pool.release(some);
  // A block of another class is kept: it goes, rather than the request.
  void* const large = take(pool, 9000);
  pool.release(large);
  // Rounded up to its class it would not fit.
  ASSERT_GT(MemoryPool::size_class(9984), 10'000u);
  void* const exact = take(pool, 9984);
  EXPECT_EQ(device->taken(), 9984u);
  pool.release(exact);
  EXPECT_THAT(refusal(pool, 10'001), HasSubstr("10000 bytes"));
  EXPECT_THAT(refusal(pool, SIZE_MAX), HasSubstr("10000 bytes"));
  EXPECT_LE(device->most, 10'000u);
}

// D3: a refusal tells the numbers that were compared: blocks, which are rounded up
TEST(MemoryPoolTest, RefusalsTellWhatWasCompared) {
  MemoryPool pool(device_of(1 << 20), bounded(1000));
  std::vector<void*> taken;
  for (int k = 0; k < 7; ++k) taken.push_back(take(pool, 65, "tensor 'odd'"));
  EXPECT_THAT(refusal(pool, 100),
              AllOf(HasSubstr("a block of 128 bytes"), HasSubstr("1000 bytes (the test's bound)"),
                    HasSubstr("blocks, rounded up, take 896"),
                    HasSubstr("most was asked for by tensor 'odd' on dev:0.0 (455)")));
  for (void* const data : taken) pool.release(data);
}

// D3: pools of one device share what it declares; one's unused blocks make room for the other
TEST(MemoryPoolTest, PoolsOfADeviceShareItsMemory) {
  const auto device = device_of(1 << 20, 10'000);
  MemoryPool first(device, {"dev:0.0", {}}), second(device, {"dev:0.1", {}});
  first.release(take(first, 7000));
  void* const second_has = take(second, 8000, "tensor 'theirs'");
  EXPECT_EQ(first.use().cached, 0u);
  EXPECT_THAT(refusal(first, 5000), AllOf(HasSubstr("10000 bytes (memory of device 'counting')"),
                                          HasSubstr("tensor 'theirs' on dev:0.1 (8000)")));
  second.release(second_has);
  first.release(take(first, 5000));
  EXPECT_LE(device->most, 10'000u);
}

// D3: a device that has no more gets what is unused back first
TEST(MemoryPoolTest, TrimsBeforeADeviceIsFull) {
  const auto device = device_of(10'000);
  MemoryPool pool(device);
  pool.release(take(pool, 7000));
  void* const other = take(pool, 9000);
  EXPECT_THAT(refusal(pool, 2000), HasSubstr("the device is full"));
  pool.release(other);
  pool.release(take(pool, 2000));
}

// D3: threads at once: the bound is kept, the counts add up
TEST(MemoryPoolTest, ThreadsKeepTheBoundTogether) {
  const auto device = device_of(1 << 30, 100'000);
  std::atomic<int> refused{0};
  {
    std::vector<std::unique_ptr<MemoryPool>> pools;
    for (int k = 0; k < 2; ++k) pools.push_back(std::make_unique<MemoryPool>(device));
    std::vector<std::thread> threads;
    for (unsigned k = 0; k < 4; ++k) {
      threads.emplace_back([&, k] {
        std::mt19937 random(k);
        MemoryPool& pool = *pools[k % 2];
        std::vector<void*> mine;
        for (int step = 0; step < 3000; ++step) {
          if (!mine.empty() && random() % 2 == 0) {
            pool.release(mine.back());
            mine.pop_back();
            continue;
          }
          void* data = nullptr;
          const Status status = pool.allocate(1 + random() % 20'000, &data, {k, "block"});
          if (status.ok()) {
            mine.push_back(data);
          } else {
            ++refused;
          }
        }
        for (void* const data : mine) pool.release(data);
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& pool : pools) {
      EXPECT_EQ(pool->use().in_use, 0u);
      for (const MemoryHolder& holder : pool->holders()) EXPECT_EQ(holder.in_use, 0u);
    }
  }
  EXPECT_EQ(device->taken(), 0u);
  EXPECT_LE(device->most, 100'000u);
  EXPECT_GT(refused, 0);
}

// D3: what a device refuses by itself names the largest holder too
TEST(MemoryPoolTest, ADeviceThatIsFullTellsWhoHasMost) {
  MemoryPool pool(device_of(8192), bounded(1 << 20));
  void* const held = take(pool, 8192, "the one that fills it");
  EXPECT_THAT(refusal(pool, 64), AllOf(HasSubstr("the device is full"),
                                       HasSubstr("the one that fills it on dev:0.0 (8192)")));
  pool.release(held);
}

// D3: a device that cannot give memory for another reason says so itself, and nobody is to free any
TEST(MemoryPoolTest, ABrokenDeviceIsNotFull) {
  const auto device = device_of(8192);
  MemoryPool pool(device, bounded(1 << 20));
  void* const held = take(pool, 4096, "what works");
  device->broken = Status(ErrorCode::device_failed, "the device fell off its bus");
  void* data = nullptr;
  const Status status = pool.allocate(4096, &data);
  EXPECT_EQ(status.code(), ErrorCode::device_failed);
  EXPECT_THAT(status.to_string(),
              AllOf(HasSubstr("fell off its bus"), Not(HasSubstr("what works"))));
  pool.release(held);
}

// D3: a block that there is no memory to keep account of takes nothing from any bound
TEST(MemoryPoolTest, WithoutMemoryNothingIsTaken) {
  MemoryPool pool(device_of(4096, 4096), bounded(4096));
  for (std::uint64_t granted = 0; granted < 10; ++granted) {
    void* data = nullptr;
    Status status;
    {
      const NoMemory none(granted);
      status = pool.allocate(4096, &data);
    }
    if (status.ok()) pool.release(data);
    pool.trim();
    pool.release(take(pool, 4096));
  }
}

// D3: pools that could not be made are in no account
TEST(MemoryPoolTest, APoolWithoutMemoryIsForgotten) {
  MemoryPool whole(device_of(4096, 4096));
  for (std::uint64_t granted = 0; granted < 20; ++granted) {
    auto device = device_of(4096, 4096);
    MemoryPoolOptions options = bounded(4096);
    const NoMemory none(granted);
    try {
      const MemoryPool pool(std::move(device), std::move(options));
    } catch (const std::bad_alloc&) {
    }
  }
  EXPECT_THAT(refusal(whole, 8192), HasSubstr("the limit is"));
}

// Sanitizers' allocators end the process instead.
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
// D3
TEST(CpuDeviceTest, RefusesWhatTheMachineCannotGive) {
  const auto device = make_cpu_device();
  void* data = &data;
  const Status status = device->allocate(std::size_t{1} << 60, &data);
  EXPECT_EQ(status.code(), ErrorCode::exhausted);
  EXPECT_THAT(status.to_string(), HasSubstr("1152921504606846976 bytes"));
  EXPECT_EQ(data, nullptr);
}
#endif

}  // namespace
}  // namespace heddle::dev
