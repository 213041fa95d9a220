// MemoryCache: memory of one virtual device: takes blocks from the pool of its memory space, has
// those at hand that it will ask for again, and keeps account of who asked for how much. Any
// thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devices/memory_pool.hpp"
#include "scheduler/threads/biased_mutex.hpp"

namespace heddle::dev {

/// For whom a block is: tensors by id, which is 0 for buffers without one, and by label.
using Holder = std::pair<std::uint64_t, std::string>;

struct HolderCount {
  const Holder* holder;
  std::uint64_t in_use = 0, peak = 0;
  std::size_t blocks = 0;  // that point here
};

/// Bytes of a virtual device. A buffer counts until its last owner has gone; its block, which is
/// rounded up, is kept from then on, until another buffer or another device takes it, or it goes
/// back to the physical device, which is not before its last uses have ended.
struct MemoryUse {
  std::uint64_t in_use = 0;  ///< of live buffers, as asked for
  std::uint64_t peak = 0;    ///< the most that in_use has been
  std::uint64_t cached = 0;  ///< of blocks that are kept
};

struct MemoryCacheOptions {
  std::string name;            ///< the virtual device's: messages say it
  std::uint64_t timeline = 0;  ///< its number
  MemoryLimit own;             ///< bounds this device alone
};

/// A forked child has no memory by it: what it gives back goes to the physical device.
class MemoryCache {
 public:
  MemoryCache(std::shared_ptr<MemoryPool> pool, std::shared_ptr<PhysicalDevice> device,
              MemoryCacheOptions options = {});
  ~MemoryCache();
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;

  /// A block of at least `bytes` (0 gives none), contents undefined, whose last uses are as
  /// `may_have` (not `any`) says. Where a bound would be passed or the device has no more, all that
  /// share the bound give back what they keep and nothing uses, and then a larger block will do,
  /// before it says `exhausted`: what bounds it, and the largest holders.
  [[nodiscard]] Status allocate(std::size_t bytes, BlockRef* block, const Holder& holder = {},
                                LastUses may_have = LastUses::over) noexcept;
  /// Its buffer has gone, whose uses it knows.
  void release(BlockRef block) noexcept;
  /// Its buffer has gone; nobody can take it, as nobody knows its last uses.
  void forget(BlockRef block) noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return options_.name; }
  [[nodiscard]] std::uint64_t timeline() const noexcept { return options_.timeline; }
  [[nodiscard]] MemoryUse use() const noexcept;
  /// Those that have memory, and a thousand of those that had; most in use first. Throws
  /// std::bad_alloc.
  [[nodiscard]] std::vector<MemoryHolder> holders() const;
  /// What it keeps goes back to the devices, once the last uses have ended: those blocks that
  /// have none but such.
  void trim(LastUses having = LastUses::any) noexcept;

 private:
  /// Larger blocks are not at hand: what is done with them takes longer than to ask the pool.
  static constexpr std::size_t at_hand_block_max = std::size_t{64} << 10;
  static constexpr std::size_t at_hand_max = std::size_t{1} << 20;  // bytes in all
  static constexpr std::size_t at_hand_classes = 36;                // of such blocks

  Status allocate_block(std::size_t bytes, BlockRef* block, const Holder& holder,
                        LastUses may_have);
  [[nodiscard]] BlockRef take_at_hand(SizeClass size, const Wanted& wanted, std::size_t bytes,
                                      const Holder& holder);
  [[nodiscard]] BlockRef take_kept(SizeClass size, const Wanted& wanted) noexcept;
  /// The smallest that it has.
  [[nodiscard]] BlockRef take_up_to(std::size_t most, SizeClass size,
                                    const Wanted& wanted) noexcept;
  Status take_fresh(std::size_t size, BlockRef* block);
  Status take_by_itself(std::size_t size, BlockRef* block);
  [[nodiscard]] BlockRef take_part(std::size_t size) noexcept;
  [[nodiscard]] std::shared_ptr<const Slab> take_slab();
  [[nodiscard]] MemoryAccount* take_from_accounts(std::size_t size) noexcept;
  [[nodiscard]] bool make_ours(Block& block) noexcept;
  /// Other threads may have been inside then, and nothing is done.
  [[nodiscard]] bool in_forked_child() const noexcept {
    return fork_generation_ != sched::fork_generation();
  }
  void leave() noexcept;
  void let_go(BlockRef block) noexcept;
  void note(Block& block, std::size_t bytes, const Holder& holder);
  void forget_holder(Block& block) noexcept;
  void count_kept(Block& block) noexcept;
  void gone(Block& block) noexcept;

  const std::shared_ptr<MemoryPool> pool_;
  const MemoryCacheOptions options_;
  const std::shared_ptr<Share> share_ = std::make_shared<Share>();
  std::shared_ptr<const BlockSource> source_;
  std::vector<std::shared_ptr<MemoryAccount>> accounts_;  // all that bound it
  const std::uint32_t fork_generation_ = sched::fork_generation();
  mutable sched::BiasedMutex mutex_;                // taken before the pool's
  std::array<BlockList, at_hand_classes> at_hand_;  // guarded by mutex_, as all below
  std::size_t at_hand_bytes_ = 0;
  std::shared_ptr<const Slab> slab_;  // of which the next small blocks are parts
  std::size_t slab_used_ = 0;         // bytes
  BlockList forgotten_;               // they go with the cache
  std::map<Holder, HolderCount> holders_;
  std::uint64_t in_use_ = 0, peak_ = 0;
};

}  // namespace heddle::dev
