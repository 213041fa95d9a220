// Size classes, blocks and their lists.
#include "devices/memory_pool.hpp"

#include <algorithm>
#include <bit>

#if __has_include(<sanitizer/asan_interface.h>)
#include <sanitizer/asan_interface.h>
#endif

namespace heddle::dev {
namespace {

/// Blocks of a list that are looked at: asking of an event costs some nanoseconds.
constexpr int looked_at_max = 8;

constexpr std::size_t round_up(std::size_t bytes, std::size_t step) noexcept {
  return (bytes + step - 1) / step * step;
}

}  // namespace

SizeClass SizeClass::of(std::size_t bytes) noexcept {
  constexpr std::size_t equal = 4 * smallest;  // up to here they are `smallest` apart
  if (bytes <= equal) {
    const std::size_t size = round_up(bytes, smallest);
    return {size / smallest - 1, size};
  }
  const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1));
  const std::size_t step = std::size_t{1} << (power - 3);
  const std::size_t size = round_up(bytes, step);
  return {4 * (power - std::bit_width(equal) + 1) + size / step - 5, size};
}

Block::~Block() {
  forbid_touches(false);
  source->device->release(data, size);
  for (const auto& account : source->accounts) account->give_back(size);
  if (!share) return;
  if (share->bound) share->bound->give_back(size);
  // relaxed: a number for people.
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

bool Wanted::will_do(const Block& block) const noexcept {
  return last_uses == LastUses::any || std::ranges::all_of(block.last_uses, [&](const Event& use) {
           return (last_uses == LastUses::ordered && use.device_id() == timeline) || use.done();
         });
}

BlockList::~BlockList() {
  while (take({LastUses::any, 0})) continue;
}

void BlockList::push(BlockRef block) noexcept {
  block->next = std::exchange(first_, block.block_);
  block.block_ = nullptr;  // the list keeps it
}

BlockRef BlockList::take(const Wanted& wanted) noexcept {
  int looked_at = 0;
  for (Block** at = &first_; *at != nullptr && looked_at < looked_at_max; ++looked_at) {
    if (wanted.will_do(**at)) {
      BlockRef taken;
      taken.block_ = std::exchange(*at, (*at)->next);
      return taken;
    }
    at = &(*at)->next;
  }
  return {};
}

void BlockList::move_to(BlockList& to, const Share& share, const Wanted& wanted) noexcept {
  for (Block** at = &first_; *at != nullptr;) {
    Block* const block = *at;
    if (block->share.get() != &share || !wanted.will_do(*block)) {
      at = &block->next;
      continue;
    }
    *at = block->next;
    block->next = std::exchange(to.first_, block);
  }
}

void MemoryPool::put(BlockRef block) noexcept {
  const std::size_t number = SizeClass::of(block->size).number;
  const std::lock_guard lock(mutex_);
  lists_[number].push(std::move(block));
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
