// The state behind Buffer: memory, and a revocable right to the memory with a list of its uses. Any
// thread; functions marked "under the lock" need the ledger (device lock).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <string>
#include <string_view>

#include "devices/device.hpp"
#include "devices/memory_cache.hpp"
#include "heddle/device.hpp"
#include "heddle/program.hpp"
#include "runtime/memory/hazards.hpp"
#include "runtime/memory/ledger.hpp"
#include "runtime/memory/loan.hpp"

namespace heddle::rt {

/// A block of memory of a buffer or a similar owner. Referenced by the owner, and by every task
/// that uses the memory until the task has ended; tasks of fast-path executor calls hold no
/// reference. When the owner lets go, the block is free for a new owner, whose uses come after the
/// remaining tasks.
class Memory {
 public:
  /// Borrowed host memory.
  explicit Memory(HostArray array)
      : data(array.data()), bytes(array.num_bytes()), host(std::move(array)) {}
  Memory(std::shared_ptr<dev::MemoryCache> from, dev::BlockRef taken, std::size_t num_bytes)
      : data(taken ? taken->data : nullptr),
        bytes(num_bytes),
        cache_(std::move(from)),
        block_(std::move(taken)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  /// Releases the block if let_go() was not called: then no fast-path call used the memory, and
  /// every other use has ended.
  ~Memory();

  void* const data;
  const std::size_t bytes;
  const std::optional<HostArray> host{};  ///< keeps borrowed host memory alive

  /// Uses by the block's previous owner, which new uses wait for.
  [[nodiscard]] std::span<const Event> former_uses() const noexcept;
  /// Timeline of the device of the memory; 0: borrowed memory.
  [[nodiscard]] std::uint64_t timeline() const noexcept { return cache_ ? cache_->timeline() : 0; }
  /// True if the block is one of this cache's: a virtual device has one cache.
  [[nodiscard]] bool is_of(const dev::MemoryCache& cache) const noexcept {
    return cache_.get() == &cache;
  }
  /// Called for a task that uses the memory without holding a reference. Under the ledger of its
  /// device.
  void be_bare() const noexcept {
    // relaxed: pairs with the load in was_bare(); the later release of the memory orders the store
    // before the load.
    if (block_ && !block_->bare.load(std::memory_order_relaxed))
      block_->bare.store(true, std::memory_order_relaxed);
  }
  /// True if be_bare() was called by an owner that has dropped the memory since. For a task that
  /// uses the memory.
  [[nodiscard]] bool was_bare() const noexcept {
    // relaxed: pairs with the store in be_bare().
    return block_ && block_->bare.load(std::memory_order_relaxed);
  }
  /// Releases the block; `uses` become its last uses, which the next owner's uses wait for. Called
  /// once, by the last owner able to add uses. `alone`: the caller drops the only reference next,
  /// and the destructor releases the block.
  void let_go(const Hazards& uses, bool alone) const noexcept;

 private:
  const std::shared_ptr<dev::MemoryCache> cache_{};  // null: borrowed
  dev::BlockRef block_{};                            // constant until the destructor
  mutable bool has_last_uses_ = false;               // let_go() was called
  mutable bool gone_ = false;                        // the cache has the block
};

/// The state behind Buffer: a right to memory, ended by donation, and the uses of the memory that
/// later uses wait for, including those of a next owner.
class BufferState {
 public:
  /// Memory of the virtual device named `device`. `former`: uses to wait for from the start.
  BufferState(std::shared_ptr<const Memory> memory, std::shared_ptr<dev::PhysicalDevice> physical,
              std::shared_ptr<const std::string> device, std::shared_ptr<Ledger> ledger,
              Hazards former = {});
  /// A promised buffer: takes over the memory of `giver` in a later work. `promise` names the work,
  /// for messages.
  BufferState(std::shared_ptr<const BufferState> giver, std::string promise);
  /// A buffer without memory, until begin().
  BufferState(std::shared_ptr<dev::PhysicalDevice> physical,
              std::shared_ptr<const std::string> device, std::shared_ptr<Ledger> ledger);
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;
  /// Releases the memory, unless it was donated. A next owner waits for the uses.
  ~BufferState();

  /// Starts a new life of a buffer that is not shared yet, with memory new to every user.
  void begin(std::shared_ptr<const Memory> memory);
  /// Starts a new life with the memory of `giver`, which `giver` keeps until hand_over().
  void begin_promised(std::shared_ptr<const BufferState> giver) noexcept;
  /// Ends the life; see the destructor.
  void end() noexcept;

  const std::shared_ptr<dev::PhysicalDevice> physical;  ///< the memory's device
  const std::shared_ptr<const std::string> device;      ///< name of the virtual device
  // Set before the buffer is shared:
  std::byte* data = nullptr;  ///< valid while the memory is referenced
  std::size_t bytes = 0;
  const bool borrowed = false;  ///< borrowed from a host array
  /// Text and id of the hosted constant in the buffer, which no task may write; an empty text: no
  /// constant. Set before the buffer is shared.
  std::string constant;
  std::uint64_t constant_id = 0;
  /// The bytes must be 0 and are not yet written; the task of the first use writes the zeros (D2).
  /// Set before the buffer is shared; cleared once, under the ledger. A reader without the ledger
  /// may see a stale `true`.
  std::atomic<bool> is_fresh{false};
  void begin_with_zeros() noexcept {
    // relaxed: the buffer is not shared yet.
    is_fresh.store(bytes > 0, std::memory_order_relaxed);
  }

  const std::shared_ptr<Ledger> ledger;  ///< the device's lock; guards the members below
  std::shared_ptr<const Memory> memory;  ///< null: donated, or promised and not given yet
  /// number of runs being submitted with this buffer; > 0 forbids donation
  std::uint32_t pins = 0;
  /// Loans of the memory's bytes: a writer first gives the borrower a copy.
  std::list<std::shared_ptr<Loan>> loans;

  /// Donates the memory to a new buffer. Throws failed_precondition, with absence() in the message,
  /// if there is no memory, and if the buffer is pinned.
  [[nodiscard]] std::shared_ptr<BufferState> donate(std::source_location where);
  /// True if the buffer has no memory yet and is promised some. Under the lock.
  [[nodiscard]] bool is_promised() const noexcept { return giver_ != nullptr; }
  /// The current or promised memory; null: donated. Under the lock.
  [[nodiscard]] std::shared_ptr<const Memory> expected() const noexcept {
    const BufferState* has = this;
    while (has->giver_) has = has->giver_.get();
    return has->memory;
  }
  /// The reason why the memory is missing, and the remedy, for messages. Under the lock.
  [[nodiscard]] std::string absence() const;

  // A work that hands the memory to a promised buffer. Under the lock:

  /// True if neither loan, pin nor constant prevents the hand-over.
  [[nodiscard]] bool may_be_handed_over() const noexcept {
    return loans.empty() && pins == 0 && constant.empty();
  }
  /// Called before the work takes a ticket. `taker`: the new owner, for messages. Throws
  /// failed_precondition if the buffer is pinned, and std::bad_alloc.
  void prepare_hand_over(std::string_view taker, const std::source_location& where);
  /// Called when the work has its ticket and its use is recorded.
  void hand_over(BufferState& to, const std::source_location& where) noexcept;

  /// The uses that a next use may have to wait for. Under the lock.
  [[nodiscard]] Hazards& hazards() noexcept { return hazards_; }

 private:
  [[nodiscard]] std::shared_ptr<BufferState> next_owner() const;

  std::source_location taken_at_;  // place of the donation
  std::string taken_by_;  // tensor that took the memory; empty: the caller of donate() has it
  std::shared_ptr<const BufferState> giver_;  // null once it has handed over the memory
  const std::string promise_;
  Hazards hazards_;
};

/// True if the buffer may be without values so far; exact with the ledger locked.
[[nodiscard]] inline bool may_be_fresh(const BufferState& buffer) noexcept {
  // relaxed: a caller that needs the exact value reads again under the ledger.
  return buffer.is_fresh.load(std::memory_order_relaxed);
}

/// True if both views contain a common byte.
[[nodiscard]] bool overlap(const BufferView& a, const BufferView& b) noexcept;
/// True if the two address ranges overlap, in one block or in different blocks.
[[nodiscard]] bool ranges_overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b,
                                  std::size_t b_bytes) noexcept;

/// Throws failed_precondition, naming the tensor, if the view belongs to a hosted constant.
void require_writable(const BufferView& view);

}  // namespace heddle::rt
