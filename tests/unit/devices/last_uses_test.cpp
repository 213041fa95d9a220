// Blocks whose last uses are under way: who may take them, and when they go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/scheduler.hpp"
#include "tests/unit/devices/memory_fixture.hpp"

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
  const std::shared_ptr<CountingDevice> device = device_of(1 << 24);
  const std::shared_ptr<MemoryPool> pool = std::make_shared<MemoryPool>();
  UsedBy owner{"owner"}, other{"other"};
  Cache cache{device, options(owner), pool}, beside{device, options(other), pool};
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
