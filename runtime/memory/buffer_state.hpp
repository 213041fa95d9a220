// What is behind Buffer: memory, and a right to it that knows the uses. Any thread, with the ledger
// locked where that is said.
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

/// Memory that a buffer, or something like it, was given: kept by that, and by every task that uses
/// it until that ended, but for plain calls of executors. Its block is free for others once that
/// lets it go, who come after the tasks.
class Memory {
 public:
  /// Borrowed.
  explicit Memory(HostArray array)
      : data(array.data()), bytes(array.num_bytes()), host(std::move(array)) {}
  Memory(std::shared_ptr<dev::MemoryCache> from, dev::BlockRef taken, std::size_t num_bytes)
      : data(taken ? taken->data : nullptr),
        bytes(num_bytes),
        cache_(std::move(from)),
        block_(std::move(taken)) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  /// Lets it go, if that has not happened: then no plain call used it, and all else has ended.
  ~Memory();

  void* const data;
  const std::size_t bytes;
  const std::optional<HostArray> host{};  ///< keeps borrowed host memory

  /// What uses of the block come after: those of who had it before.
  [[nodiscard]] std::span<const Event> former_uses() const noexcept;
  /// Of the device that it is of; 0: it is borrowed.
  [[nodiscard]] std::uint64_t timeline() const noexcept { return cache_ ? cache_->timeline() : 0; }
  /// A task uses it that keeps it by nothing. Under the ledger of its device.
  void be_bare() const noexcept {
    // relaxed: pairs with the load in was_bare(); what drops the memory later carries it there.
    if (block_ && !block_->bare.load(std::memory_order_relaxed))
      block_->bare.store(true, std::memory_order_relaxed);
  }
  /// Whether be_bare() was called, by any who have dropped it since. For a task among its uses.
  [[nodiscard]] bool was_bare() const noexcept {
    // relaxed: pairs with the store in be_bare().
    return block_ && block_->bare.load(std::memory_order_relaxed);
  }
  /// Once, by the last who can ask for uses: it comes after these.
  void let_go(const Hazards& uses) const noexcept;

 private:
  const std::shared_ptr<dev::MemoryCache> cache_{};  // null: borrowed
  const dev::BlockRef block_{};
  mutable bool gone_ = false;
};

/// What is behind Buffer: a right to memory, which donation takes away. It knows the uses of the
/// memory that next ones come after, a next owner's among them.
class BufferState {
 public:
  /// The memory of a virtual device, by name. `former`: what uses come after from the start.
  BufferState(std::shared_ptr<const Memory> memory, std::shared_ptr<dev::PhysicalDevice> physical,
              std::shared_ptr<const std::string> device, std::shared_ptr<Ledger> ledger,
              Hazards former = {});
  /// That of `giver` from the work on that hands it over; `promise` says which, for messages.
  BufferState(std::shared_ptr<const BufferState> giver, std::string promise);
  /// Without memory, until begin().
  BufferState(std::shared_ptr<dev::PhysicalDevice> physical,
              std::shared_ptr<const std::string> device, std::shared_ptr<Ledger> ledger);
  BufferState(const BufferState&) = delete;
  BufferState& operator=(const BufferState&) = delete;
  /// The memory is free for others, if it has not been given away: they come after its uses.
  ~BufferState();

  /// A life, or another one, of a buffer that nobody knows: of that memory, which is new to all.
  void begin(std::shared_ptr<const Memory> memory);
  /// The same, of the memory that `giver` has until it is handed over.
  void begin_promised(std::shared_ptr<const BufferState> giver) noexcept;
  /// That ends, as the destructor says.
  void end() noexcept;

  const std::shared_ptr<dev::PhysicalDevice> physical;  ///< whose memory it is
  const std::shared_ptr<const std::string> device;      ///< name of the virtual one
  // Set before others know the buffer:
  std::byte* data = nullptr;  ///< as long as the memory is kept
  std::size_t bytes = 0;
  const bool borrowed = false;  ///< from a host array
  /// The hosted constant that it holds, which nobody may write: its text, else empty, and its id.
  /// Set before others know the buffer.
  std::string constant;
  std::uint64_t constant_id = 0;
  /// Its bytes are to be 0, and are not yet: the task of its first use sees to that (D2). Set
  /// before others know the buffer; taken away once, with the ledger locked. Whoever has not locked
  /// it may find `true` for too long.
  std::atomic<bool> is_fresh{false};
  void begin_with_zeros() noexcept {
    // relaxed: nobody knows it yet.
    is_fresh.store(bytes > 0, std::memory_order_relaxed);
  }

  const std::shared_ptr<Ledger> ledger;  ///< guards what follows: of the device that it is of
  std::shared_ptr<const Memory> memory;  ///< null: donated, or promised and not given yet
  std::uint32_t pins = 0;                ///< works of one run are being submitted that use it
  /// Of bytes that are written only once those that still read them by a loan have a copy.
  std::list<std::shared_ptr<Loan>> loans;

  /// Hands the memory on. Throws failed_precondition where there is none, as absence() says.
  [[nodiscard]] std::shared_ptr<BufferState> donate(std::source_location where);
  /// Will have memory, but has none yet. Under the lock.
  [[nodiscard]] bool is_promised() const noexcept { return giver_ != nullptr; }
  /// The memory that it has or will have; null: it was donated. Under the lock.
  [[nodiscard]] std::shared_ptr<const Memory> expected() const noexcept {
    const BufferState* has = this;
    while (has->giver_) has = has->giver_.get();
    return has->memory;
  }
  /// Where there is no memory: why, and what to do. Under the lock.
  [[nodiscard]] std::string absence() const;

  // A work in which the memory goes to a buffer that it was promised to. Under the lock:

  /// No loan is to be seen to before, and no pin forbids it.
  [[nodiscard]] bool may_be_handed_over() const noexcept {
    return loans.empty() && pins == 0 && constant.empty();
  }
  /// Before the work takes its ticket; `taker`: what it goes to, for messages. Throws where it is
  /// pinned, and std::bad_alloc.
  void prepare_hand_over(std::string_view taker, const std::source_location& where);
  /// The work has its ticket, and its use is noted.
  void hand_over(BufferState& to, const std::source_location& where) noexcept;

  /// What a next use comes after. Under the lock.
  [[nodiscard]] Hazards& hazards() noexcept { return hazards_; }

 private:
  [[nodiscard]] std::shared_ptr<BufferState> next_owner() const;

  std::source_location taken_at_;  // where it was donated
  std::string taken_by_;           // the tensor that it went to; empty: to who called donate()
  std::shared_ptr<const BufferState> giver_;  // until it has given
  const std::string promise_;
  Hazards hazards_;
};

/// Whether it has had no values so far: for sure, while its ledger is locked.
[[nodiscard]] inline bool may_be_fresh(const BufferState& buffer) noexcept {
  // relaxed: it is looked at again with the ledger locked.
  return buffer.is_fresh.load(std::memory_order_relaxed);
}

/// Whether a byte is in both.
[[nodiscard]] bool overlap(const BufferView& a, const BufferView& b) noexcept;
/// Whether the two lie over each other; of different blocks too.
[[nodiscard]] bool ranges_overlap(const std::byte* a, std::size_t a_bytes, const std::byte* b,
                                  std::size_t b_bytes) noexcept;

/// Throws failed_precondition, naming the tensor, when the view is into a hosted constant.
void require_writable(const BufferView& view);

}  // namespace heddle::rt
