// The handle pool of one result: each cell ("result cell") has room for an array, the array's
// buffer, and the buffer's memory, which are destroyed independently. A call whose earlier results
// were dropped makes new handles without memory allocation.
//
//   site                       cell                                  owner of a result
//   takes a spare cell ----->  array, buffer, memory: three parts -> destroyed on any thread
//   spare again        <-----  the last part is destroyed
//
// A pool lives until its owner has let go and no cell has a part alive. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>

#include "runtime/device/allocation.hpp"
#include "runtime/memory/array_state.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/protocol/inbox.hpp"
#include "scheduler/protocol/split_count.hpp"
#include "scheduler/threads/biased_mutex.hpp"

namespace heddle::rt {

class ResultCells;

class ResultCell {
 public:
  explicit ResultCell(ResultCells& of) noexcept : of_(of) {}
  ResultCell(const ResultCell&) = delete;
  ResultCell& operator=(const ResultCell&) = delete;

  /// Places the control block of a part's std::shared_ptr in the cell.
  template <class T>
  struct Allocator {
    using value_type = T;
    Allocator(ResultCell& of, std::size_t at) noexcept : cell(&of), part(at) {}
    template <class U>
    Allocator(const Allocator<U>& other) noexcept  // NOLINT: allocators convert
        : cell(other.cell), part(other.part) {}
    [[nodiscard]] T* allocate(std::size_t count) const noexcept {
      static_assert(sizeof(T) <= room_bytes);
      static_cast<void>(count);  // always one
      return reinterpret_cast<T*>(cell->rooms_[part].bytes);
    }
    void deallocate(T* /*at*/, std::size_t /*count*/) const noexcept { cell->end_part(part); }
    template <class U>
    friend bool operator==(const Allocator& a, const Allocator<U>& b) noexcept {
      return a.cell == b.cell && a.part == b.part;
    }
    ResultCell* cell;
    std::size_t part;
  };

  /// Starts the three parts of a taken cell: a buffer of `bytes` in the block. Throws
  /// std::bad_alloc, and then no part is alive.
  [[nodiscard]] std::shared_ptr<ArrayState> begin(const Device& device, const ArrayType& type,
                                                  dev::BlockRef block, std::size_t bytes);
  /// Starts the parts with the memory that `giver` has until the hand-over.
  [[nodiscard]] std::shared_ptr<ArrayState> begin_promised(
      const Device& device, const ArrayType& type, std::shared_ptr<const BufferState> giver);

  ResultCell* next = nullptr;  ///< in the pool's list

 private:
  friend class ResultCells;
  enum Part : std::size_t { memory_part, buffer_part, array_part, parts };
  static constexpr std::size_t room_bytes = 192;
  struct Room {
    alignas(std::max_align_t) std::byte bytes[room_bytes];
  };

  struct EndArray {
    ResultCell* cell;
    void operator()(ArrayState* /*array*/) const noexcept { cell->end_array(); }
  };

  void end_array() noexcept;
  void end_part(std::size_t part) noexcept;
  void make_buffer(const Execution& execution);
  std::shared_ptr<ArrayState> begin_handles(const Device& device, const ArrayType& type,
                                            std::size_t& begun);

  ResultCells& of_;
  std::atomic<std::uint32_t> left_{0};  // live parts
  // The number of the thread that drops the array's buffer: parts that end meanwhile on that thread
  // are counted when the array's part ends.
  std::atomic<std::uint64_t> ends_array_{sched::no_thread_number};
  std::uint32_t ended_with_array_ = 0;  // used by that thread
  std::optional<ArrayState> array_;
  std::optional<BufferState> buffer_;
  Room rooms_[parts];
};

/// The pool of one result on a device: the spare cells.
class ResultCells {
 public:
  explicit ResultCells(std::shared_ptr<dev::MemoryCache> memory) noexcept
      : memory_(std::move(memory)) {}
  ResultCells(const ResultCells&) = delete;
  ResultCells& operator=(const ResultCells&) = delete;

  struct LetGo {
    void operator()(ResultCells* cells) const noexcept;
  };

  /// A spare cell, or a new cell. Throws std::bad_alloc.
  [[nodiscard]] ResultCell& take();
  /// Returns a taken cell without live parts. The pool may be destroyed.
  void give(ResultCell& cell) noexcept;

 private:
  friend class ResultCell;
  ~ResultCells();

  const std::shared_ptr<dev::MemoryCache> memory_;  // for the memory of every cell
  sched::BiasedMutex mutex_;                        // guards the members up to cells_
  ResultCell* ours_ = nullptr;
  bool is_over_ = false;       // the owner has let go
  sched::SplitCount<> cells_;  // counts taken cells; begin() is called under the lock
  // cells given back by threads without the bias of the lock
  sched::Inbox<ResultCell> given_;
};

}  // namespace heddle::rt
