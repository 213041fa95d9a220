// Taking, keeping and giving back blocks; bounds; accounting.
#include "devices/memory_cache.hpp"

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>

#include "scheduler/device/timeline.hpp"

namespace heddle::dev {
namespace {

/// The number of holders without memory that are remembered.
constexpr std::size_t holders_max = 1024;
/// The number of devices whose last uses of a block are remembered without more memory.
constexpr std::size_t usual_uses = 4;

/// From this size on, a block up to twice as large is preferred to a fresh one: sizes are diverse
/// there, and each first touch is long. With random sizes devices keep at most 1.5 times the memory
/// in use, not 2.4 times (docs/performance.md).
constexpr std::size_t large_block = std::size_t{1} << 20;

/// Smaller blocks are parts of slabs: a routine has many small blocks, and a device may need
/// microseconds and a page for each allocation. Devices with their own bound use no slabs, because
/// the bound may be less than a slab.
constexpr std::size_t small_block = std::size_t{4} << 10;
constexpr std::size_t slab_bytes = std::size_t{64} << 10;

/// The minimum size of a block.
std::size_t exact(std::size_t bytes) noexcept {
  constexpr std::size_t step = SizeClass::smallest;
  return bytes > SizeClass::bytes_max ? bytes : (bytes + step - 1) / step * step;
}

/// The class of a block that later requests can reuse.
std::optional<SizeClass> class_of(const Block& block) noexcept {
  if (block.size > SizeClass::bytes_max) return {};
  const SizeClass size = SizeClass::of(block.size);
  return size.size == block.size ? std::optional(size) : std::nullopt;
}

}  // namespace

MemoryCache::MemoryCache(std::shared_ptr<MemoryPool> pool, std::shared_ptr<PhysicalDevice> device,
                         MemoryCacheOptions options)
    : pool_(std::move(pool)),
      options_(std::move(options)),
      source_(std::make_shared<const BlockSource>(BlockSource{device, accounts_of(*device)})),
      accounts_(source_->accounts) {
  if (options_.own.source) {
    share_->bound = std::make_shared<MemoryAccount>([own = options_.own] { return own; });
    accounts_.push_back(share_->bound);
  }
  try {
    for (const auto& account : accounts_) account->join(*this);
  } catch (...) {
    leave();
    throw;
  }
}

MemoryCache::~MemoryCache() {
  leave();
  trim();
}

void MemoryCache::leave() noexcept {
  for (const auto& account : accounts_) account->leave(*this);
}

Status MemoryCache::allocate(std::size_t bytes, BlockRef* block, const Holder& holder,
                             LastUses may_have) noexcept {
  *block = {};
  if (bytes == 0) return {};
  if (in_forked_child()) {
    return Status(ErrorCode::unavailable, [&] {
      return "device '" + options_.name +
             "': forked: this process is a child of the one that opened it; open another here";
    });
  }
  try {
    *block = take_at_hand(bytes, holder, may_have);
    return *block ? Status() : allocate_block(bytes, block, holder, may_have);
  } catch (const std::bad_alloc&) {
    return Status(ErrorCode::exhausted, "no host memory to keep account of a block");
  }
}

/// Where no block is at hand.
Status MemoryCache::allocate_block(std::size_t bytes, BlockRef* block, const Holder& holder,
                                   LastUses may_have) {
  BlockRef found;
  Status status;
  if (bytes <= SizeClass::bytes_max) {
    const SizeClass size = SizeClass::of(bytes);
    const Wanted wanted{may_have, options_.timeline};
    found = take_up_to(size.size < large_block ? size.size : 2 * size.size, size, wanted);
    if (!found) status = take_fresh(size.size, &found);
    if (!found && exact(bytes) < size.size) status = take_fresh(exact(bytes), &found);
    if (!found) found = take_up_to(SizeClass::bytes_max, size, wanted);
  } else {
    status = take_fresh(bytes, &found);
  }
  if (!found) return status;
  try {
    const std::lock_guard lock(mutex_);
    note(*found, bytes, holder);
  } catch (...) {
    {
      const std::lock_guard lock(mutex_);
      forget_holder(*found);  // the block may still name its last holder here
    }
    count_kept(*found);
    if (class_of(*found)) pool_->put(std::move(found));
    throw;
  }
  *block = std::move(found);
  return {};
}

/// The common path: one lock, and no search for the holder if it is the same again.
BlockRef MemoryCache::take_at_hand(std::size_t bytes, const Holder& holder,
                                   LastUses may_have) noexcept {
  if (bytes == 0 || bytes > at_hand_block_max || in_forked_child()) return {};
  static_assert(SizeClass::of(at_hand_block_max).number < at_hand_classes);
  const SizeClass size = SizeClass::of(bytes);
  const std::lock_guard lock(mutex_);
  BlockRef block = at_hand_[size.number].take({may_have, options_.timeline});
  if (!block) return {};
  try {
    note(*block, bytes, holder);
  } catch (const std::bad_alloc&) {
    at_hand_[size.number].push(std::move(block), true);
    return {};
  }
  at_hand_bytes_ -= size.size;
  mutex_.claim();
  block->forbid_touches(false);
  return block;
}

BlockRef MemoryCache::take_kept(SizeClass size, const Wanted& wanted) noexcept {
  BlockRef block = pool_->take(size, wanted);
  if (block && !make_ours(*block)) {
    pool_->put(std::move(block));
    return {};
  }
  return block;
}

BlockRef MemoryCache::take_up_to(std::size_t most, SizeClass size, const Wanted& wanted) noexcept {
  BlockRef block;
  for (; !block && size.size <= most; size = SizeClass::of(size.size + 1)) {
    if (size.number < at_hand_classes) {
      const std::lock_guard lock(mutex_);
      block = at_hand_[size.number].take(wanted);
      if (block) at_hand_bytes_ -= size.size;
    }
    if (block) {
      block->forbid_touches(false);
    } else {
      block = take_kept(size, wanted);
    }
    if (size.size == SizeClass::bytes_max) break;
  }
  return block;
}

/// false: the cache's own bound has no room for the block.
bool MemoryCache::make_ours(Block& block) noexcept {
  if (block.share != share_) {
    if (share_->bound && !share_->bound->take(block.size)) return false;
    if (block.share->bound) block.share->bound->give_back(block.size);
  }
  // relaxed: pairs with itself and the load in use(); a statistic.
  if (block.kept) block.share->kept.fetch_sub(block.size, std::memory_order_relaxed);
  block.kept = false;
  block.share = share_;
  block.forbid_touches(false);
  return true;
}

Status MemoryCache::take_fresh(std::size_t size, BlockRef* block) {
  if (size < small_block && !share_->bound) *block = take_part(size);
  if (!*block) {
    if (Status status = take_by_itself(size, block); !status.ok()) return status;
  }
  (*block)->share = share_;
  (*block)->last_uses.reserve(usual_uses);
  return {};
}

Status MemoryCache::take_by_itself(std::size_t size, BlockRef* block) {
  const MemoryAccount* bound = take_from_accounts(size);
  if (bound != nullptr) {
    bound->trim();
    bound = take_from_accounts(size);
  }
  if (bound != nullptr) return Status(ErrorCode::exhausted, bound->refusal(size));
  void* data = nullptr;
  Status status = source_->device->allocate(size, &data);
  if (!status.ok()) {
    trim(LastUses::over);
    for (const auto& account : accounts_) account->trim();
    status = source_->device->allocate(size, &data);
  }
  if (status.ok()) {
    try {
      *block = BlockRef(new Block(source_, data, size));
      return {};
    } catch (...) {
      source_->device->release(data, size);
      for (const auto& account : accounts_) account->give_back(size);
      throw;
    }
  }
  for (const auto& account : accounts_) account->give_back(size);
  // The host has no more memory, though the bounds would allow it: the message names the largest
  // holders.
  if (status.code() != ErrorCode::exhausted || accounts_.empty()) return status;
  return Status(ErrorCode::exhausted, accounts_.front()->refusal(size), std::move(status));
}

/// Null without room for a slab, or without memory for its bookkeeping.
BlockRef MemoryCache::take_part(std::size_t size) noexcept {
  const std::lock_guard lock(mutex_);
  try {
    if (!slab_ || slab_->size - slab_used_ < size) {
      slab_ = take_slab();
      slab_used_ = 0;
    }
    if (!slab_) return {};
    BlockRef part(
        new Block(source_, static_cast<std::byte*>(slab_->data) + slab_used_, size, slab_));
    slab_used_ += size;
    return part;
  } catch (const std::bad_alloc&) {
    return {};
  }
}

std::shared_ptr<const Slab> MemoryCache::take_slab() {
  if (take_from_accounts(slab_bytes) != nullptr) return nullptr;
  void* data = nullptr;
  if (source_->device->allocate(slab_bytes, &data).ok()) {
    try {
      return std::make_shared<const Slab>(source_, data, slab_bytes);
    } catch (...) {
      source_->give_back(data, slab_bytes);
      throw;
    }
  }
  for (const auto& account : accounts_) account->give_back(slab_bytes);
  return nullptr;
}

/// The account without room; null when every account has room.
MemoryAccount* MemoryCache::take_from_accounts(std::size_t size) noexcept {
  for (auto at = accounts_.begin(); at != accounts_.end(); ++at) {
    if ((*at)->take(size)) continue;
    MemoryAccount* const bound = at->get();
    while (at != accounts_.begin()) (*--at)->give_back(size);
    return bound;
  }
  return nullptr;
}

/// Called with the lock held.
void MemoryCache::note(Block& block, std::size_t bytes, const Holder& holder) {
  if (block.holder == nullptr || *block.holder->holder != holder) {
    const auto at = holders_.try_emplace(holder).first;
    forget_holder(block);
    at->second.holder = &at->first;
    ++at->second.blocks;
    block.holder = &at->second;
  }
  block.asked = bytes;
  // relaxed: pairs with the load in let_go(); the block has a new owner, whose initial values count
  // among the previous owner's uses, if there are any.
  if (block.last_uses.empty()) block.bare.store(false, std::memory_order_relaxed);
  HolderCount& count = *block.holder;
  count.in_use += bytes;
  count.peak = std::max(count.peak, count.in_use);
  in_use_ += bytes;
  peak_ = std::max(peak_, in_use_);
}

/// Called with the lock held.
void MemoryCache::forget_holder(Block& block) noexcept {
  HolderCount* const count = std::exchange(block.holder, nullptr);
  if (count == nullptr) return;
  --count->blocks;
  if (count->blocks == 0 && holders_.size() > holders_max) holders_.erase(*count->holder);
}

/// Called with the lock held: the block's buffer is destroyed.
void MemoryCache::gone(Block& block) noexcept {
  in_use_ -= block.asked;
  block.holder->in_use -= block.asked;
}

/// Adds a block without a buffer, outside at_hand_, to the share's count of kept bytes.
void MemoryCache::count_kept(Block& block) noexcept {
  block.kept = true;
  // relaxed: pairs with itself and the load in use(); a statistic.
  block.share->kept.fetch_add(block.size, std::memory_order_relaxed);
}

void MemoryCache::release(BlockRef block) noexcept {
  if (!block || in_forked_child()) return;
  const std::optional<SizeClass> reusable = class_of(*block);
  if (reusable && block->last_uses.empty()) block->forbid_touches(true);
  // Uses of other devices that ended meanwhile are not checked here.
  const bool will_do = std::ranges::all_of(
      block->last_uses, [&](const Event& use) { return use.device_id() == options_.timeline; });
  {
    const std::lock_guard lock(mutex_);
    gone(*block);
    if (reusable && block->size <= at_hand_block_max &&
        at_hand_bytes_ + block->size <= at_hand_max) {
      at_hand_bytes_ += block->size;
      at_hand_[reusable->number].push(std::move(block), will_do);
      return;
    }
    forget_holder(*block);
  }
  count_kept(*block);
  if (reusable) return pool_->put(std::move(block));
  let_go(std::move(block));
}

void MemoryCache::forget(BlockRef block) noexcept {
  if (!block || in_forked_child()) return;
  {
    const std::lock_guard lock(mutex_);
    gone(*block);
    forget_holder(*block);
    count_kept(*block);
    // tasks may still use the block without keeping it alive
    forgotten_.push(std::move(block), false);
  }
}

MemoryUse MemoryCache::use() const noexcept {
  if (in_forked_child()) return {};
  const std::lock_guard lock(mutex_);
  // relaxed: pairs with the updates of `kept`; a statistic.
  return {in_use_, peak_, at_hand_bytes_ + share_->kept.load(std::memory_order_relaxed)};
}

std::vector<MemoryHolder> MemoryCache::holders() const {
  std::vector<MemoryHolder> result;
  if (in_forked_child()) return result;
  {
    const std::lock_guard lock(mutex_);
    result.reserve(holders_.size());
    for (const auto& [holder, count] : holders_)
      result.push_back({holder.second, count.in_use, count.peak});
  }
  // Holders with equal bytes in use are sorted by label, so that two queries of the same state
  // agree.
  std::ranges::sort(result, [](const MemoryHolder& a, const MemoryHolder& b) {
    return a.in_use != b.in_use ? a.in_use > b.in_use : a.label < b.label;
  });
  return result;
}

void MemoryCache::trim(LastUses having) noexcept {
  if (in_forked_child()) return;
  const Wanted wanted{having, options_.timeline};
  BlockList trimmed;  // destroyed after the locks
  std::shared_ptr<const Slab> rest;
  {
    const std::lock_guard lock(mutex_);
    rest = std::exchange(slab_, nullptr);
    for (BlockList& list : at_hand_) list.move_to(trimmed, *share_, wanted);
    trimmed.for_each([&](Block& block) {
      at_hand_bytes_ -= block.size;
      forget_holder(block);
      count_kept(block);
    });
  }
  pool_->move_to(trimmed, *share_, wanted);
  while (BlockRef block = trimmed.take({LastUses::any, 0})) let_go(std::move(block));
}

/// Drops a reference. Tasks among the last uses keep the block until they have ended; for a bare
/// block, whose tasks hold no reference, callbacks of these tasks keep the block.
void MemoryCache::let_go(BlockRef block) noexcept {
  // relaxed: pairs with the stores of `bare`: the releasing thread has set it, or follows the
  // threads that did.
  if (!block->bare.load(std::memory_order_relaxed)) return;
  for (const Event& use : block->last_uses) {
    if (sched::Timeline::has_ended(use)) continue;
    try {
      sched::Timeline::call(use, [block] { static_cast<void>(block); });
    } catch (const std::bad_alloc&) {
      const std::lock_guard lock(mutex_);
      forgotten_.push(std::move(block), false);
      return;
    }
  }
}

}  // namespace heddle::dev
