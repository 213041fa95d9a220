// Blocks whose last uses are under way: who may take them, and when they go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "heddle/scheduler.hpp"
#include "tests/unit/devices/memory_fixture.hpp"
#include "tests/unit/scheduler/allocations.hpp"

namespace heddle::dev {
namespace {

using testing::HasSubstr;
using testing::SizeIs;

/// Uses of a block, by a device of that number.
class UsedBy {
 public:
  explicit UsedBy(const char* name) : timeline_(name), use_(timeline_.next()) {}
  [[nodiscard]] std::uint64_t number() const { return use_.device_id(); }
  [[nodiscard]] const Event& use() const { return use_; }
  void end() { EXPECT_TRUE(timeline_.signal(use_.ticket()).ok()); }

 private:
  sched::ExternalTimeline timeline_;
  const Event use_;
};

class LastUsesTest : public testing::TestWithParam<std::size_t> {
 protected:
  MemoryCacheOptions options(const UsedBy& whose, std::uint64_t most = 1 << 22) const {
    return {"dev:0", whose.number(), {most, the_source()}};
  }
  const std::size_t bytes = GetParam();
  const std::shared_ptr<CountingDevice> device = device_of(std::uint64_t{1} << 30);
  const std::shared_ptr<MemoryPool> pool = std::make_shared<MemoryPool>();
  UsedBy owner{"owner"}, other{"other"};
  Cache cache{device, options(owner), pool}, beside{device, options(other), pool};
  Cache unbounded{device, {"dev:1", owner.number(), {}}, std::make_shared<MemoryPool>()};
};
// Those at hand, and those of the pool.
INSTANTIATE_TEST_SUITE_P(Small, LastUsesTest, testing::Values(std::size_t{1000}));
INSTANTIATE_TEST_SUITE_P(Large, LastUsesTest, testing::Values(std::size_t{1'000'000}));

// D2: a block whose last uses are under way is taken at once by the timeline that they are of, and
// by nobody who cannot come after them
TEST_P(LastUsesTest, OwnTimelineTakesBlocksAtOnce) {
  BlockRef block = cache.take(bytes);
  const BlockRef kept_by_a_task = block;
  block->last_uses = {owner.use()};
  cache.release(std::move(block));
  EXPECT_EQ(cache.use().in_use, 0u);
  EXPECT_NE(beside.take(bytes)->data, kept_by_a_task->data);
  EXPECT_NE(cache.take(bytes, "touched now", LastUses::over)->data, kept_by_a_task->data);
  block = cache.take(bytes, "used in order", LastUses::ordered);
  EXPECT_EQ(block->data, kept_by_a_task->data);
  ASSERT_THAT(block->last_uses, SizeIs(1));  // others come after them yet
  EXPECT_EQ(block->last_uses[0].ticket(), owner.use().ticket());
  cache.release(std::move(block));
  owner.end();
  EXPECT_EQ(cache.take(bytes, "touched now", LastUses::over)->data, kept_by_a_task->data);
}

// D2: however many were left since by others that are not done, those whose uses are over are found
TEST_P(LastUsesTest, BlocksThatAreOverAreFoundAmongOthers) {
  std::vector<UsedBy> users;
  for (int k = 0; k < 100; ++k) users.emplace_back("user");
  std::vector<BlockRef> blocks;
  for (std::size_t k = 0; k < users.size(); ++k) blocks.push_back(unbounded.take(bytes));
  const auto asked = device->asked;
  for (std::size_t k = 0; k < users.size(); ++k) {
    blocks[k]->last_uses = {users[k].use()};
    unbounded.release(std::move(blocks[k]));
  }
  blocks.clear();
  for (std::size_t k = 0; k < 10; ++k) users[k].end();
  for (int k = 0; k < 10; ++k) blocks.push_back(unbounded.take(bytes));
  EXPECT_EQ(device->asked, asked);
  // Those behind many that are never done, too.
  for (std::size_t k = 60; k < 100; ++k) users[k].end();
  for (int tries = 0; tries < 10; ++tries) blocks.push_back(unbounded.take(bytes));
  EXPECT_LE(device->asked, asked + 7);
  for (BlockRef& block : blocks) unbounded.release(std::move(block));
  for (std::size_t k = 10; k < 60; ++k) users[k].end();
}

// D2: what other devices use yet is taken by nobody: no device waits for another without need
TEST_P(LastUsesTest, BlocksThatOthersUseAreNotTaken) {
  BlockRef block = cache.take(bytes);
  const BlockRef kept_by_a_task = block;
  block->last_uses = {owner.use(), other.use()};
  cache.release(std::move(block));
  for (Cache* const each : {&cache, &beside}) {
    block = each->take(bytes);
    EXPECT_NE(block->data, kept_by_a_task->data);
    each->release(std::move(block));
  }
  other.end();
  for (Cache* const each : {&cache, &beside}) each->trim(LastUses::over);
  EXPECT_EQ(cache.take(bytes)->data, kept_by_a_task->data);
}

// D3: at its bound a device takes a block that is larger than it needs, rather than none
TEST_P(LastUsesTest, LargerBlocksWillDoAtABound) {
  Cache bounded(device, options(owner, 2 * bytes), pool);
  BlockRef block = bounded.take(bytes);
  const BlockRef kept_by_a_task = block;
  block->last_uses = {owner.use()};
  bounded.release(std::move(block));
  BlockRef first = bounded.take(bytes / 2);
  EXPECT_NE(first->data, kept_by_a_task->data);
  block = bounded.take(bytes * 3 / 4);
  EXPECT_EQ(block->data, kept_by_a_task->data);
  EXPECT_EQ(bounded.use().in_use, bytes / 2 + bytes * 3 / 4);
  for (BlockRef* const each : {&first, &block}) bounded.release(std::move(*each));
}

// D3: one that there is no memory to keep account of is kept for others, without its last holder
TEST_P(LastUsesTest, WithoutMemoryBlocksAreNobodys) {
  bool kept = false;
  for (std::uint64_t granted = 0; granted < 10; ++granted) {
    Cache bounded(device, options(owner, 2 * bytes), std::make_shared<MemoryPool>());
    BlockRef block = bounded.take(bytes);
    const BlockRef kept_by_a_task = block;
    block->last_uses = {owner.use()};
    bounded.release(std::move(block));
    BlockRef first = bounded.take(bytes / 2);
    Status status;
    {
      const NoMemory none(granted);
      status = bounded.allocate(bytes * 3 / 4, &block, {0, "another"}, LastUses::ordered);
    }
    if (status.ok()) bounded.release(std::move(block));
    bounded.release(std::move(first));
    kept = kept || (!status.ok() && kept_by_a_task->kept && bytes < 4096);
    EXPECT_TRUE(!kept_by_a_task->kept || kept_by_a_task->holder == nullptr) << granted;
  }
  EXPECT_EQ(kept, bytes < 4096);  // of those at hand
}

// D2, D3: what is given back goes to the device when the last task that has it is gone, and counts
// until then
TEST_P(LastUsesTest, TrimmedBlocksGoAfterTheirUses) {
  const std::size_t size = SizeClass::of(bytes).size;
  BlockRef block = cache.take(bytes);
  BlockRef kept_by_a_task = block;
  block->last_uses = {owner.use()};
  cache.release(std::move(block));
  cache.trim(LastUses::over);
  EXPECT_EQ(cache.take(bytes, "again", LastUses::ordered)->data, kept_by_a_task->data);
  cache.release(kept_by_a_task);
  cache.trim();
  EXPECT_EQ(device->taken(), size);
  EXPECT_EQ(cache.use().cached, size);
  EXPECT_NE(cache.take(bytes)->data, kept_by_a_task->data);
  kept_by_a_task = {};
  EXPECT_EQ(cache.use().cached, 0u);
}

// D2: what one device needs no more another takes, and its bound is the one that counts
TEST_P(LastUsesTest, PassesFromDeviceToDevice) {
  const std::size_t size = SizeClass::of(1'000'000).size;
  cache.release(cache.take(1'000'000));
  EXPECT_EQ(cache.use().cached, size);
  {
    Cache bounded(device, options(other, 1000), pool);
    EXPECT_THAT(bounded.refusal(1'000'000), HasSubstr("the limit is 1000 bytes"));
  }
  EXPECT_EQ(cache.use().cached, size);
  BlockRef block = beside.take(1'000'000);
  EXPECT_EQ(device->asked, 1);
  EXPECT_EQ(cache.use().cached, 0u);
  cache.release(cache.take((std::size_t{1} << 22)));  // all that it may have
  beside.release(std::move(block));
  EXPECT_EQ(beside.use().cached, size);
}

// D2: a block whose uses nobody could note is nobody else's
TEST_P(LastUsesTest, ForgottenBlocksAreNotTaken) {
  BlockRef block = cache.take(bytes);
  const BlockRef kept_by_a_task = block;
  cache.forget(std::move(block));
  EXPECT_NE(cache.take(bytes)->data, kept_by_a_task->data);
}

}  // namespace
}  // namespace heddle::dev
