// Size classes, blocks and their lists.
#include "devices/memory_pool.hpp"

#include <algorithm>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif

#include "scheduler/device/timeline.hpp"

namespace heddle::dev {
namespace {

/// The maximum number of blocks examined per list: a query of an event costs some nanoseconds.
constexpr int looked_at_max = 8;

}  // namespace

void BlockSource::give_back(void* data, std::size_t size) const noexcept {
  device->release(data, size);
  for (const auto& account : accounts) account->give_back(size);
}

Block::~Block() {
  forbid_touches(false);
  if (!slab) source->give_back(data, size);
  if (!share) return;
  if (share->bound) share->bound->give_back(size);
  // relaxed: pairs with itself and the load in MemoryCache::use(); a statistic.
  if (kept) share->kept.fetch_sub(size, std::memory_order_relaxed);
}

void Block::tell_sanitizer([[maybe_unused]] bool forbidden) const noexcept {
#ifdef ASAN_POISON_MEMORY_REGION
  if (source->device->properties().memory_space != host_memory_space) return;
  if (forbidden) {
    ASAN_POISON_MEMORY_REGION(data, size);
  } else {
    ASAN_UNPOISON_MEMORY_REGION(data, size);
  }
#endif
}

bool Wanted::all_will_do(std::span<const Event> uses) const noexcept {
  return std::ranges::all_of(uses, [&](const Event& use) {
    return (last_uses == LastUses::ordered && use.device_id() == timeline) ||
           sched::Timeline::has_ended(use);
  });
}

void BlockList::Chain::push_front(Block* block) noexcept {
  block->next = first;
  if (first == nullptr) end = &block->next;
  first = block;
}

void BlockList::Chain::push_back(Block* block) noexcept {
  block->next = nullptr;
  *end = block;
  end = &block->next;
}

Block* BlockList::Chain::remove(Block** at) noexcept {
  Block* const block = *at;
  *at = block->next;
  if (end == &block->next) end = at;
  return block;
}

BlockList::~BlockList() {
  while (take({LastUses::any, 0})) continue;
}

void BlockList::push(BlockRef block, bool will_do) noexcept {
  if (will_do) {
    ready_.push_front(block.block_);
  } else {
    busy_.push_back(block.block_);
  }
  block.block_ = nullptr;  // the list keeps the block
}

BlockRef BlockList::take(const Wanted& wanted) noexcept {
  BlockRef taken = take_ready(wanted);
  return taken ? std::move(taken) : take_busy(wanted);
}

BlockRef BlockList::take_ready(const Wanted& wanted) noexcept {
  BlockRef taken;
  int looked_at = 0;
  for (Block** at = &ready_.first; *at != nullptr && looked_at < looked_at_max; ++looked_at) {
    if (wanted.will_do(**at)) {
      taken.block_ = ready_.remove(at);
      break;
    }
    at = &(*at)->next;
  }
  return taken;
}

/// Unsuitable blocks move to the end, and are examined last next time.
BlockRef BlockList::take_busy(const Wanted& wanted) noexcept {
  BlockRef taken;
  const Block* first_seen = nullptr;
  for (int looked_at = 0; looked_at < looked_at_max; ++looked_at) {
    if (busy_.first == nullptr || busy_.first == first_seen) break;
    Block* const block = busy_.remove(&busy_.first);
    if (wanted.will_do(*block)) {
      taken.block_ = block;
      break;
    }
    busy_.push_back(block);
    if (first_seen == nullptr) first_seen = block;
  }
  return taken;
}

void BlockList::move_to(BlockList& to, const Share& share, const Wanted& wanted) noexcept {
  for (Chain* const each : {&ready_, &busy_}) {
    for (Block** at = &each->first; *at != nullptr;) {
      if ((*at)->share.get() != &share || !wanted.will_do(**at)) {
        at = &(*at)->next;
      } else {
        to.ready_.push_front(each->remove(at));
      }
    }
  }
}

void MemoryPool::put(BlockRef block) noexcept {
  const std::size_t number = SizeClass::of(block->size).number;
  const bool will_do = block->last_uses.empty();
  const std::lock_guard lock(mutex_);
  lists_[number].push(std::move(block), will_do);
}

BlockRef MemoryPool::take(SizeClass size, const Wanted& wanted) noexcept {
  const std::lock_guard lock(mutex_);
  return lists_[size.number].take(wanted);
}

void MemoryPool::move_to(BlockList& to, const Share& share, const Wanted& wanted) noexcept {
  const std::lock_guard lock(mutex_);
  for (BlockList& list : lists_) list.move_to(to, share, wanted);
}

}  // namespace heddle::dev
