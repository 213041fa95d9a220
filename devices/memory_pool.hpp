// Blocks of memory, and MemoryPool: those that no buffer has, for whichever device of their memory
// space asks next. First touch of fresh memory is up to 100 times slower than reuse
// (docs/performance.md), so blocks are kept by size class. Any thread.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "devices/device.hpp"
#include "devices/memory_account.hpp"
#include "heddle/event.hpp"

namespace heddle::dev {

/// Four size classes per power of two, at least 64 bytes.
struct SizeClass {
  static constexpr std::size_t count = 220;
  /// More is refused by every device, and rounding it up would overflow.
  static constexpr std::size_t bytes_max = std::size_t{1} << 62;
  static constexpr std::size_t smallest = 64;

  std::size_t number;
  std::size_t size;  ///< of its blocks

  /// The least whose blocks hold that many bytes, from 1 to bytes_max.
  [[nodiscard]] static SizeClass of(std::size_t bytes) noexcept;
};

/// Where blocks come from, and all accounts that they are in.
struct BlockSource {
  std::shared_ptr<PhysicalDevice> device;
  std::vector<std::shared_ptr<MemoryAccount>> accounts;

  void give_back(void* data, std::size_t size) const noexcept;
};

/// What a virtual device has: its own bound, if there is one, and bytes of blocks that no buffer
/// has any more and no other device took.
struct Share {
  std::shared_ptr<MemoryAccount> bound;
  std::atomic<std::uint64_t> kept{0};
};

/// Bytes that several small blocks are parts of. Goes back with the last.
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

/// Bytes that a device gave, or a part of such. Goes back there with the last that keeps it.
/// Whoever has it, a buffer or the list of a pool or cache, changes it.
struct Block {
  /// `part_of` null: the device gave it by itself, and it counts in the accounts.
  Block(std::shared_ptr<const BlockSource> from, void* at, std::size_t bytes,
        std::shared_ptr<const Slab> part_of = {})
      : source(std::move(from)), slab(std::move(part_of)), data(at), size(bytes) {}
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;

  const std::shared_ptr<const BlockSource> source;
  const std::shared_ptr<const Slab> slab;
  void* const data;
  const std::size_t size;
  std::shared_ptr<Share> share;   ///< whose it is, or was last
  std::vector<Event> last_uses;   ///< of the last buffer: a next one's uses come after them
  std::size_t asked = 0;          ///< bytes, by its buffer
  HolderCount* holder = nullptr;  ///< who asked last, as far as a cache remembers
  bool kept = false;              ///< it counts in the share
  /// Tasks among the last uses keep it by nothing: it goes once they have ended.
  std::atomic<bool> bare{false};
  Block* next = nullptr;  ///< in a list

  /// AddressSanitizer takes every touch for a mistake, until it is told otherwise.
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

/// Keeps a block.
class BlockRef {
 public:
  BlockRef() = default;
  explicit BlockRef(Block* block) noexcept : block_(block) {
    // relaxed: whoever makes one has another, or the only one.
    if (block_ != nullptr) block_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  BlockRef(const BlockRef& other) noexcept : BlockRef(other.block_) {}
  BlockRef(BlockRef&& other) noexcept : block_(std::exchange(other.block_, nullptr)) {}
  BlockRef& operator=(BlockRef other) noexcept {
    std::swap(block_, other.block_);
    return *this;
  }
  ~BlockRef() {
    // acq_rel: all that was done with it, by whoever kept it (pairs with itself), comes before it
    // goes.
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

/// Which last uses a block may have.
enum class LastUses : std::uint8_t {
  over,     ///< that have ended: it may be touched here and now
  ordered,  ///< or are of the same timeline: whatever its tasks do comes after them
  any,      ///< whatever they are: it goes where it came from
};

/// Which blocks will do for somebody whose uses are tasks of a timeline.
struct Wanted {
  LastUses last_uses;
  std::uint64_t timeline;
  [[nodiscard]] bool will_do(const Block& block) const noexcept;
};

/// Blocks of one size class. Takes no memory.
class BlockList {
 public:
  BlockList() = default;
  BlockList(const BlockList&) = delete;
  BlockList& operator=(const BlockList&) = delete;
  ~BlockList();

  /// `will_do`: for who is likely to ask next. Else it is looked at after those that came before.
  void push(BlockRef block, bool will_do) noexcept;
  /// One that will do, of those that came last and would, then of those that came first and would
  /// not. None: there is none among these.
  [[nodiscard]] BlockRef take(const Wanted& wanted) noexcept;
  /// Moves those of the share that will do to `to`.
  void move_to(BlockList& to, const Share& share, const Wanted& wanted) noexcept;
  /// Calls it for each.
  template <class F>
  void for_each(const F& f) {
    for (const Chain* const each : {&ready_, &busy_}) {
      for (Block* block = each->first; block != nullptr; block = block->next) f(*block);
    }
  }

 private:
  struct Chain {
    Block* first = nullptr;
    Block** end = &first;  ///< where the next one goes
    void push_front(Block* block) noexcept;
    void push_back(Block* block) noexcept;
    /// The one after that place.
    Block* remove(Block** at) noexcept;
  };
  [[nodiscard]] BlockRef take_ready(const Wanted& wanted) noexcept;
  [[nodiscard]] BlockRef take_busy(const Wanted& wanted) noexcept;

  Chain ready_;  // the one that came last first
  Chain busy_;   // the one that was not looked at for longest first: most likely it will do now
};

/// One for all devices of a backend whose memory is in one space.
class MemoryPool {
 public:
  void put(BlockRef block) noexcept;
  /// Null where there is none of that class.
  [[nodiscard]] BlockRef take(SizeClass size, const Wanted& wanted) noexcept;
  /// As BlockList::move_to(), of all classes.
  void move_to(BlockList& to, const Share& share, const Wanted& wanted) noexcept;

 private:
  std::mutex mutex_;
  std::array<BlockList, SizeClass::count> lists_;  // guarded by mutex_
};

}  // namespace heddle::dev
