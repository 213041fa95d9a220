// MemoryPool: blocks of memory without a buffer (a free list), for the next request of any device
// of their memory space. The first touch of fresh memory is up to 100 times slower than reuse
// (docs/performance.md), so blocks are kept by size class. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "devices/device.hpp"
#include "devices/memory_account.hpp"
#include "heddle/event.hpp"

namespace heddle::dev {

/// Four size classes per power of two, at least 64 bytes.
class SizeClass {
 public:
  static constexpr std::size_t count = 220;
  /// Every device refuses larger sizes, and rounding them up would overflow.
  static constexpr std::size_t bytes_max = std::size_t{1} << 62;
  static constexpr std::size_t smallest = 64;

  std::size_t number;
  std::size_t size;  ///< of its blocks

  /// The smallest class whose blocks hold that many bytes, from 1 to bytes_max.
  [[nodiscard]] static constexpr SizeClass of(std::size_t bytes) noexcept {
    constexpr std::size_t equal = 4 * smallest;  // up to here classes are `smallest` apart
    if (bytes <= equal) {
      const std::size_t size = round_up(bytes, smallest);
      return {size / smallest - 1, size};
    }
    const auto power = static_cast<std::size_t>(std::bit_width(bytes - 1));
    const std::size_t step = std::size_t{1} << (power - 3);
    const std::size_t size = round_up(bytes, step);
    return {4 * (power - std::bit_width(equal) + 1) + (size >> (power - 3)) - 5, size};
  }

 private:
  /// `step`: a power of two.
  [[nodiscard]] static constexpr std::size_t round_up(std::size_t bytes,
                                                      std::size_t step) noexcept {
    return (bytes + step - 1) & ~(step - 1);
  }
};

/// The source of blocks, and the accounts that count them.
struct BlockSource {
  std::shared_ptr<PhysicalDevice> device;
  std::vector<std::shared_ptr<MemoryAccount>> accounts;

  void give_back(void* data, std::size_t size) const noexcept;
};

/// The share of a virtual device: its separate bound, if any, and the bytes of its blocks that have
/// no buffer, are not in at_hand_ of its cache, and were not taken by a different device.
struct Share {
  std::shared_ptr<MemoryAccount> bound;
  std::atomic<std::uint64_t> kept{0};
};

/// Memory divided into several small blocks. Returned to its source when no block is left, and no
/// cache takes further blocks from the slab.
struct Slab {
  Slab(std::shared_ptr<const BlockSource> from, void* at, std::size_t bytes)
      : source(std::move(from)), data(at), size(bytes) {}
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;
  ~Slab() { source->give_back(data, size); }

  const std::shared_ptr<const BlockSource> source;
  void* const data;
  const std::size_t size;
};

struct HolderCount;

/// Memory from a device, or a part of a slab. Returned to its source with the last reference. The
/// current owner, a buffer or a list of a pool or cache, may change the members.
struct Block {
  /// `part_of` null: the block is an allocation of the device, and counts in the accounts.
  Block(std::shared_ptr<const BlockSource> from, void* at, std::size_t bytes,
        std::shared_ptr<const Slab> part_of = {})
      : source(std::move(from)), slab(std::move(part_of)), data(at), size(bytes) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const std::shared_ptr<const BlockSource> source;
  const std::shared_ptr<const Slab> slab;
  void* const data;
  const std::size_t size;
  std::shared_ptr<Share> share;   ///< of the current or latest virtual device
  std::vector<Event> last_uses;   ///< of the last buffer; the next buffer's uses come after these
  std::size_t asked = 0;          ///< bytes requested by its buffer
  HolderCount* holder = nullptr;  ///< the latest holder, if the cache remembers it
  bool kept = false;              ///< the block counts in the share
  /// True if tasks among the last uses hold no reference to the block. Before such a block is
  /// returned to its source, MemoryCache waits for the end of these tasks by callbacks.
  std::atomic<bool> bare{false};
  Block* next = nullptr;  ///< in a list

  /// AddressSanitizer reports every access as an error while `forbidden` is set.
  void forbid_touches(bool forbidden) const noexcept {
    if constexpr (with_address_sanitizer) tell_sanitizer(forbidden);
  }

 private:
  friend class BlockRef;
#if defined(__SANITIZE_ADDRESS__)
  static constexpr bool with_address_sanitizer = true;
#elif defined(__has_feature)
  static constexpr bool with_address_sanitizer = __has_feature(address_sanitizer);
#else
  static constexpr bool with_address_sanitizer = false;
#endif
  void tell_sanitizer(bool forbidden) const noexcept;
  ~Block();
  std::atomic<std::uint32_t> references_{0};
};

/// A reference to a block.
class BlockRef {
 public:
  BlockRef() = default;
  explicit BlockRef(Block* block) noexcept : block_(block) {
    // relaxed: pairs with the decrement in ~BlockRef(): the calling thread has a reference already,
    // or has just made the block, so the count does not reach 0 meanwhile.
    if (block_ != nullptr) block_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  BlockRef(const BlockRef& other) noexcept : BlockRef(other.block_) {}
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef() {
    // acq_rel: pairs with itself: accesses through other references come before the deletion.
    if (block_ != nullptr && block_->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
      delete block_;
  }
  [[nodiscard]] Block* operator->() const noexcept { return block_; }
  [[nodiscard]] Block& operator*() const noexcept { return *block_; }
  explicit operator bool() const noexcept { return block_ != nullptr; }

 private:
  friend class BlockList;
  Block* block_ = nullptr;
};

/// The last uses that a block may have.
enum class LastUses : std::uint8_t {
  over,     ///< ended: the memory may be accessed here and now
  ordered,  ///< ended, or of the same timeline, whose later tasks come after them
  any,      ///< any: the block returns to its source
};

/// The blocks that suit a user whose uses are tasks of a timeline.
struct Wanted {
  LastUses last_uses;
  std::uint64_t timeline;
  [[nodiscard]] bool will_do(const Block& block) const noexcept {
    return block.last_uses.empty() || last_uses == LastUses::any || all_will_do(block.last_uses);
  }

 private:
  [[nodiscard]] bool all_will_do(std::span<const Event> uses) const noexcept;
};

/// Blocks of one size class. Allocates no memory.
class BlockList {
 public:
  BlockList() = default;
  BlockList(const BlockList&) = delete;
  BlockList& operator=(const BlockList&) = delete;
  ~BlockList();

  /// `will_do`: the block probably suits the next request. Otherwise it is examined after earlier
  /// blocks.
  void push(BlockRef block, bool will_do) noexcept;
  /// A suitable block: first among the latest blocks pushed with `will_do`, then among the oldest
  /// blocks pushed without. Null: none of the examined blocks suits.
  [[nodiscard]] BlockRef take(const Wanted& wanted) noexcept;
  /// Moves the suitable blocks of the share to `to`.
  void move_to(BlockList& to, const Share& share, const Wanted& wanted) noexcept;
  /// Calls `f` for each block.
  template <class F>
  void for_each(const F& f) {
    for (const Chain* const each : {&ready_, &busy_}) {
      for (Block* block = each->first; block != nullptr; block = block->next) f(*block);
    }
  }

 private:
  struct Chain {
    Block* first = nullptr;
    Block** end = &first;  ///< where the next block goes
    void push_front(Block* block) noexcept;
    void push_back(Block* block) noexcept;
    /// Removes and returns the block at that place.
    Block* remove(Block** at) noexcept;
  };
  [[nodiscard]] BlockRef take_ready(const Wanted& wanted) noexcept;
  [[nodiscard]] BlockRef take_busy(const Wanted& wanted) noexcept;

  Chain ready_;  // the latest first
  // The block examined (or added) longest ago comes first: most likely suitable now.
  Chain busy_;
};

/// The pool of a backend's devices with memory in the same space.
class MemoryPool {
 public:
  void put(BlockRef block) noexcept;
  /// Null without a suitable block of that class.
  [[nodiscard]] BlockRef take(SizeClass size, const Wanted& wanted) noexcept;
  /// BlockList::move_to() for all classes.
  void move_to(BlockList& to, const Share& share, const Wanted& wanted) noexcept;

 private:
  std::mutex mutex_;
  std::array<BlockList, SizeClass::count> lists_;  // guarded by mutex_
};

}  // namespace heddle::dev
