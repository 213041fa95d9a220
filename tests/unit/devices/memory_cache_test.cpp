// Memory of virtual devices: alignment, size classes, reuse, bounds, accounting.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <vector>

#include "tests/unit/devices/memory_fixture.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle::dev {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;
using testing::SizeIs;

// D2: whatever was asked for and wherever it comes from, new or again
TEST(MemoryCacheTest, BlocksAreAlignedTo64Bytes) {
  Cache cache(make_cpu_device());
  for (int round = 0; round < 2; ++round) {
    std::vector<BlockRef> blocks;
    for (std::size_t bytes = 1; bytes < (std::size_t{8} << 20); bytes = bytes * 5 / 3 + 1) {
      blocks.push_back(cache.take(bytes));
      EXPECT_EQ(reinterpret_cast<std::uintptr_t>(blocks.back()->data) % 64, 0u) << bytes;
      static_cast<char*>(blocks.back()->data)[bytes - 1] = 1;  // it is all there
    }
    for (BlockRef& block : blocks) cache.release(std::move(block));
  }
}

TEST(MemoryCacheTest, FourSizeClassesPerPowerOfTwo) {
  for (std::size_t bytes = 1; bytes < (std::size_t{1} << 40); bytes = bytes * 9 / 8 + 1) {
    const std::size_t size = SizeClass::of(bytes).size;
    EXPECT_GE(size, bytes);
    EXPECT_EQ(size % 64, 0u);
    EXPECT_LE(size, bytes + std::max<std::size_t>(63, bytes / 4)) << bytes;
    EXPECT_EQ(SizeClass::of(size).size, size);
  }
  for (int power = 9; power < 40; ++power) {
    std::vector<std::size_t> classes;
    const std::size_t first = (std::size_t{1} << power) + 1, last = std::size_t{2} << power;
    for (std::size_t bytes = first; bytes <= last; bytes = classes.back() + 1) {
      const auto before = SizeClass::of(bytes - 1);
      classes.push_back(SizeClass::of(bytes).size);
      EXPECT_EQ(SizeClass::of(bytes).number, before.number + 1);
      EXPECT_EQ(before.size, bytes - 1);
    }
    EXPECT_THAT(classes, SizeIs(4)) << power;
    EXPECT_EQ(classes.back(), last);
  }
  EXPECT_EQ(SizeClass::of(SizeClass::bytes_max).number, SizeClass::count - 1);
}

// D2: a block comes back for any size of its class, and for no other, whether it is small or large
TEST(MemoryCacheTest, ReusesBlocksOfTheSameClass) {
  for (const std::size_t factor : {1, 1000}) {
    const auto device = device_of(1 << 30);
    Cache cache(device);
    BlockRef first = cache.take(1000 * factor);
    const void* const data = first->data;
    cache.release(std::move(first));
    EXPECT_EQ(cache.use().cached, SizeClass::of(1000 * factor).size);
    first = cache.take(1024 * factor);
    EXPECT_EQ(first->data, data);
    EXPECT_EQ(device->asked, 1);
    EXPECT_EQ(cache.use().cached, 0u);
    BlockRef second = cache.take(1000 * factor);
    EXPECT_NE(second->data, data);
    cache.release(std::move(second));
    BlockRef other = cache.take(100 * factor);
    EXPECT_EQ(device->asked, factor == 1 ? 1 : 3);  // small ones are parts of a slab
    cache.release(std::move(first));
    cache.release(std::move(other));
    cache.trim();
    EXPECT_EQ(cache.use().cached, 0u);
    EXPECT_EQ(device->taken(), 0u);
  }
}

// D2: a device is not asked for each small block, and has all back in the end
TEST(MemoryCacheTest, SmallBlocksArePartsOfSlabs) {
  const auto device = device_of(1 << 20);
  Cache cache(device);
  std::vector<BlockRef> blocks;
  for (std::size_t bytes = 1; bytes < 3500; bytes += 70) {
    blocks.push_back(cache.take(bytes));
    std::memset(blocks.back()->data, static_cast<int>(blocks.size()), blocks.back()->size);
  }
  EXPECT_EQ(device->asked, 2);  // 92 KiB
  for (std::size_t k = 0; k < blocks.size(); ++k) {
    const auto* const bytes = static_cast<const unsigned char*>(blocks[k]->data);
    EXPECT_TRUE(std::all_of(bytes, bytes + blocks[k]->size, [&](unsigned char byte) {
      return byte == k + 1;
    })) << k;
  }
  const BlockRef last = std::move(blocks.back());
  blocks.pop_back();
  for (BlockRef& block : blocks) cache.release(std::move(block));
  cache.trim();
  EXPECT_EQ(device->taken(), 64u << 10);  // that one's
  cache.release(last);
}

// D3: where there is no room for a slab, there may be for the block
TEST(MemoryCacheTest, SmallBlocksFitWhereSlabsDoNot) {
  for (const auto& device : {device_of(5000), device_of(1 << 20, 5000)}) {
    Cache cache(device);
    BlockRef block = cache.take(1000);
    EXPECT_EQ(device->taken(), 1024u);
    static_cast<void>(cache.refusal(4200));
    cache.release(std::move(block));
  }
  const auto device = device_of(1 << 20);
  Cache bounded_one(device, bounded(1 << 20));
  bounded_one.release(bounded_one.take(1000));
  EXPECT_EQ(device->most, 1024u);
}

// D2: a large block also does for sizes down to half of its own, rather than a fresh one
TEST(MemoryCacheTest, LargeBlocksDoForLessThanTheirClass) {
  constexpr std::size_t mib = std::size_t{1} << 20;
  const auto device = device_of(1 << 30);
  Cache cache(device);
  cache.release(cache.take(3 * mib));
  BlockRef block = cache.take(mib);
  EXPECT_EQ(block->size, mib);
  BlockRef half = cache.take(3 * mib / 2);
  EXPECT_EQ(half->size, 3 * mib);
  EXPECT_EQ(cache.use().in_use, 5 * mib / 2);
  cache.release(std::move(half));
  EXPECT_EQ(cache.use().cached, 3 * mib);
  cache.release(std::move(block));
}

// D2: what is live and the most that was, in all and by tensor
TEST(MemoryCacheTest, CountsByHolder) {
  Cache cache(device_of(1 << 20));
  BlockRef data[4];
  EXPECT_TRUE(cache.allocate(1000, &data[0], {1, "tensor 'x'"}).ok());
  EXPECT_TRUE(cache.allocate(500, &data[1], {1, "tensor 'x'"}).ok());
  EXPECT_TRUE(cache.allocate(600, &data[2], {2, "tensor 'x'"}).ok());  // another of that name
  EXPECT_TRUE(cache.allocate(0, &data[3], {3, "tensor 'empty'"}).ok());
  EXPECT_FALSE(data[3]);
  cache.release(std::move(data[0]));
  cache.release(std::move(data[3]));
  EXPECT_EQ(cache.use().in_use, 1100u);
  EXPECT_EQ(cache.use().peak, 2100u);
  const auto holders = cache.holders();
  ASSERT_THAT(holders, SizeIs(2));
  EXPECT_EQ(holders[0].in_use, 600u);
  EXPECT_EQ(holders[0].peak, 600u);
  EXPECT_EQ(holders[1].in_use, 500u);
  EXPECT_EQ(holders[1].peak, 1500u);
  cache.release(std::move(data[1]));
  cache.release(std::move(data[2]));
  EXPECT_THAT(cache.holders(), SizeIs(2));  // their peaks are still known
  EXPECT_EQ(cache.use().in_use, 0u);
}

// D2: peaks are remembered of some, not of all that ever were
TEST(MemoryCacheTest, RemembersABoundedNumberOfHolders) {
  Cache cache(device_of(1 << 20));
  for (std::uint64_t id = 1; id <= 5000; ++id) {
    BlockRef block;
    ASSERT_TRUE(cache.allocate(64, &block, {id, "tensor"}).ok());
    cache.release(std::move(block));
  }
  EXPECT_LE(cache.holders().size(), 1025u);
}

// D3: the bound of a device is never passed by what it keeps; what keeps a request out is named
TEST(MemoryCacheTest, OwnBoundIsKeptAndNamed) {
  const auto device = device_of(1 << 20);
  Cache cache(device, bounded(10'000));
  BlockRef most = cache.take(6400, "tensor 'weights'");
  BlockRef some = cache.take(1280, "tensor 'bias'");
  EXPECT_THAT(cache.refusal(4000),
              AllOf(HasSubstr("10000 bytes (the test's bound)"),
                    HasSubstr("tensor 'weights' on dev:0.0 (6400), tensor 'bias'")));
  cache.release(std::move(most));
  cache.release(std::move(some));
  // A block of another class is kept: it goes, rather than the request.
  BlockRef large = cache.take(9000);
  cache.release(std::move(large));
  // Rounded up to its class it would not fit.
  ASSERT_GT(SizeClass::of(9984).size, 10'000u);
  BlockRef exact = cache.take(9984);
  EXPECT_EQ(device->taken(), 9984u);
  cache.release(std::move(exact));
  EXPECT_THAT(cache.refusal(10'001), HasSubstr("10000 bytes"));
  EXPECT_THAT(cache.refusal(SIZE_MAX), HasSubstr("10000 bytes"));
  EXPECT_LE(device->most, 10'000u);
}

// D3: a refusal tells the numbers that were compared: blocks, which are rounded up
TEST(MemoryCacheTest, RefusalsTellWhatWasCompared) {
  Cache cache(device_of(1 << 20), bounded(1000));
  std::vector<BlockRef> taken;
  for (int k = 0; k < 7; ++k) taken.push_back(cache.take(65, "tensor 'odd'"));
  EXPECT_THAT(cache.refusal(100),
              AllOf(HasSubstr("a block of 128 bytes"), HasSubstr("1000 bytes (the test's bound)"),
                    HasSubstr("blocks, rounded up, take 896"),
                    HasSubstr("most was asked for by tensor 'odd' on dev:0.0 (455)")));
  for (BlockRef& block : taken) cache.release(std::move(block));
}

// D3: virtual devices share what their device declares; one's unused blocks make room for the other
TEST(MemoryCacheTest, DevicesShareWhatTheirDeviceDeclares) {
  const auto device = device_of(1 << 20, 10'000);
  const auto pool = std::make_shared<MemoryPool>();
  Cache first(device, {"dev:0.0", 1, {}}, pool), second(device, {"dev:0.1", 2, {}}, pool);
  first.release(first.take(7000));
  BlockRef second_has = second.take(8000, "tensor 'theirs'");
  EXPECT_EQ(first.use().cached, 0u);
  EXPECT_THAT(first.refusal(5000), AllOf(HasSubstr("10000 bytes (memory of device 'counting')"),
                                         HasSubstr("tensor 'theirs' on dev:0.1 (8000)")));
  second.release(std::move(second_has));
  first.release(first.take(5000));
  EXPECT_LE(device->most, 10'000u);
}

// D3: a device that has no more gets what is unused back first
TEST(MemoryCacheTest, TrimsBeforeADeviceIsFull) {
  const auto device = device_of(10'000);
  Cache cache(device);
  cache.release(cache.take(7000));
  BlockRef other = cache.take(9000);
  EXPECT_THAT(cache.refusal(2000), HasSubstr("the device is full"));
  cache.release(std::move(other));
  cache.release(cache.take(2000));
}

// D3: threads at once: the bound is kept, the counts add up
TEST(MemoryCacheTest, ThreadsKeepTheBoundTogether) {
  const auto device = device_of(1 << 30, 100'000);
  std::atomic<int> refused{0};
  {
    const auto pool = std::make_shared<MemoryPool>();
    std::vector<std::unique_ptr<Cache>> caches;
    for (std::uint64_t k = 0; k < 2; ++k) {
      caches.push_back(
          std::make_unique<Cache>(device, MemoryCacheOptions{"dev:0", k + 1, {}}, pool));
    }
    std::vector<std::thread> threads;
    for (unsigned k = 0; k < 4; ++k) {
      threads.emplace_back([&, k] {
        std::mt19937 random(k);
        Cache& cache = *caches[k % 2];
        std::vector<BlockRef> mine;
        for (int step = 0; step < 3000; ++step) {
          if (!mine.empty() && random() % 2 == 0) {
            cache.release(std::move(mine.back()));
            mine.pop_back();
            continue;
          }
          BlockRef block;
          const Status status = cache.allocate(1 + random() % 20'000, &block, {k, "block"});
          if (status.ok()) {
            mine.push_back(std::move(block));
          } else {
            ++refused;
          }
        }
        for (BlockRef& block : mine) cache.release(std::move(block));
      });
    }
    for (auto& thread : threads) thread.join();
    for (const auto& cache : caches) {
      EXPECT_EQ(cache->use().in_use, 0u);
      for (const MemoryHolder& holder : cache->holders()) EXPECT_EQ(holder.in_use, 0u);
    }
  }
  EXPECT_EQ(device->taken(), 0u);
  EXPECT_LE(device->most, 100'000u);
  EXPECT_GT(refused, 0);
}

// D3: what a device refuses by itself names the largest holder too
TEST(MemoryCacheTest, ADeviceThatIsFullTellsWhoHasMost) {
  Cache cache(device_of(8192), bounded(1 << 20));
  BlockRef held = cache.take(8192, "the one that fills it");
  EXPECT_THAT(cache.refusal(64), AllOf(HasSubstr("the device is full"),
                                       HasSubstr("the one that fills it on dev:0.0 (8192)")));
  cache.release(std::move(held));
}

// D3: a device that cannot give memory for another reason says so itself, and nobody is to free any
TEST(MemoryCacheTest, ABrokenDeviceIsNotFull) {
  const auto device = device_of(8192);
  Cache cache(device, bounded(1 << 20));
  BlockRef held = cache.take(4096, "what works");
  device->broken = Status(ErrorCode::device_failed, "the device fell off its bus");
  BlockRef block;
  const Status status = cache.allocate(4096, &block);
  EXPECT_EQ(status.code(), ErrorCode::device_failed);
  EXPECT_THAT(status.to_string(),
              AllOf(HasSubstr("fell off its bus"), Not(HasSubstr("what works"))));
  cache.release(std::move(held));
}

// D3: a block that there is no memory to keep account of takes nothing from any bound
TEST(MemoryCacheTest, WithoutMemoryNothingIsTaken) {
  Cache cache(device_of(4096, 4096), bounded(4096));
  for (std::uint64_t granted = 0; granted < 10; ++granted) {
    BlockRef block;
    Status status;
    {
      const NoMemory none(granted);
      status = cache.allocate(4096, &block);
    }
    if (status.ok()) cache.release(std::move(block));
    cache.trim();
    cache.release(cache.take(4096));
  }
}

// D3: caches that could not be made are in no account
TEST(MemoryCacheTest, ACacheWithoutMemoryIsForgotten) {
  Cache whole(device_of(4096, 4096));
  for (std::uint64_t granted = 0; granted < 20; ++granted) {
    auto device = device_of(4096, 4096);
    MemoryCacheOptions options = bounded(4096);
    auto pool = std::make_shared<MemoryPool>();
    const NoMemory none(granted);
    try {
      const Cache cache(std::move(device), std::move(options), std::move(pool));
    } catch (const std::bad_alloc&) {
    }
  }
  EXPECT_THAT(whole.refusal(8192), HasSubstr("the limit is"));
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
