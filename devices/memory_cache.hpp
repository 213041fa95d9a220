// MemoryCache: memory of one virtual device: takes blocks from the pool of its memory space, keeps
// recently used blocks in free lists of its own (at_hand_), and accounts for the memory of each
// holder. Any thread.
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

/// The holder of a block: a tensor by id (0 for buffers without a tensor) and label.
using Holder = std::pair<std::uint64_t, std::string>;

struct HolderCount {
  const Holder* holder;
  std::uint64_t in_use = 0, peak = 0;
  std::size_t blocks = 0;  // blocks with this holder
};

/// Bytes of a virtual device. A buffer counts until its last owner releases the buffer. The
/// rounded-up block is kept from then on, until another buffer or device takes the block, or the
/// block returns to the physical device, never before the end of its last uses.
struct MemoryUse {
  std::uint64_t in_use = 0;  ///< of live buffers, as requested
  std::uint64_t peak = 0;    ///< the maximum of in_use
  std::uint64_t cached = 0;  ///< of kept blocks
};

struct MemoryCacheOptions {
  std::string name;            ///< the virtual device's, for messages
  std::uint64_t timeline = 0;  ///< the virtual device's number
  MemoryLimit own;             ///< bounds this device alone
  /// Tasks of the device end in the calls that submit them, as a rule: whether one has ended is
  /// known without a look at what another processor writes.
  bool ends_at_once = false;
};

/// In a forked child, allocate() fails (unavailable), and released blocks return to the physical
/// device.
class MemoryCache {
 public:
  MemoryCache(std::shared_ptr<MemoryPool> pool, std::shared_ptr<PhysicalDevice> device,
              MemoryCacheOptions options = {});
  ~MemoryCache();
  MemoryCache(const MemoryCache&) = delete;
  MemoryCache& operator=(const MemoryCache&) = delete;

  /// Returns a block of at least `bytes` (0 gives none), contents undefined, whose last uses
  /// satisfy `may_have` (not `any`). When a bound would be exceeded or the device has no more
  /// memory, all sharers of the bound give back kept, unused blocks; then a larger block is
  /// accepted; then the result is `exhausted`, with the bound and the largest holders.
  [[nodiscard]] Status allocate(std::size_t bytes, BlockRef* block, const Holder& holder = {},
                                LastUses may_have = LastUses::over) noexcept;
  /// The block that allocate() would return, where one that was used lately is at hand; else null.
  [[nodiscard]] BlockRef take_at_hand(std::size_t bytes, const Holder& holder,
                                      LastUses may_have) noexcept;
  /// Called when the block's buffer is destroyed. The block holds the buffer's last uses.
  void release(BlockRef block) noexcept;
  /// Called when the block's buffer is destroyed and the buffer's last uses are unknown: the block
  /// is never reused.
  void forget(BlockRef block) noexcept;

  [[nodiscard]] const std::string& name() const noexcept { return options_.name; }
  [[nodiscard]] std::uint64_t timeline() const noexcept { return options_.timeline; }
  [[nodiscard]] bool ends_at_once() const noexcept { return options_.ends_at_once; }
  [[nodiscard]] MemoryUse use() const noexcept;
  /// The holders with memory, and up to 1024 former holders; the holder with the most bytes in use
  /// comes first. Throws std::bad_alloc.
  [[nodiscard]] std::vector<MemoryHolder> holders() const;
  /// Gives up the kept blocks whose last uses satisfy `having`: each block returns to its source
  /// once its last uses have ended.
  void trim(LastUses having = LastUses::any) noexcept;

 private:
  /// Larger blocks go to the pool, not into at_hand_: their tasks take longer than a request to the
  /// pool.
  static constexpr std::size_t at_hand_block_max = std::size_t{64} << 10;
  static constexpr std::size_t at_hand_max = std::size_t{1} << 20;  // bytes in all
  static constexpr std::size_t at_hand_classes = 36;                // size classes of these blocks

  Status allocate_block(std::size_t bytes, BlockRef* block, const Holder& holder,
                        LastUses may_have);
  [[nodiscard]] BlockRef take_kept(SizeClass size, const Wanted& wanted) noexcept;
  /// Takes the smallest available block.
  [[nodiscard]] BlockRef take_up_to(std::size_t most, SizeClass size,
                                    const Wanted& wanted) noexcept;
  Status take_fresh(std::size_t size, BlockRef* block);
  Status take_by_itself(std::size_t size, BlockRef* block);
  [[nodiscard]] BlockRef take_part(std::size_t size) noexcept;
  [[nodiscard]] std::shared_ptr<const Slab> take_slab();
  [[nodiscard]] MemoryAccount* take_from_accounts(std::size_t size) noexcept;
  [[nodiscard]] bool make_ours(Block& block) noexcept;
  /// True in a forked child. The cache then does nothing, because another thread may have been
  /// changing the cache at the fork.
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
  std::vector<std::shared_ptr<MemoryAccount>> accounts_;  // every bound of the cache
  const std::uint32_t fork_generation_ = sched::fork_generation();
  mutable sched::BiasedMutex mutex_;                // taken before the pool's
  std::array<BlockList, at_hand_classes> at_hand_;  // guarded by mutex_, like all members below
  std::size_t at_hand_bytes_ = 0;
  std::shared_ptr<const Slab> slab_;  // the source of the next small blocks
  std::size_t slab_used_ = 0;         // bytes
  BlockList forgotten_;               // destroyed with the cache
  std::map<Holder, HolderCount> holders_;
  std::uint64_t in_use_ = 0, peak_ = 0;
};

}  // namespace heddle::dev
