// Room for the handles of one result of a call, used again and again: an array, the buffer that it
// lies in, and the memory that this was given, each of which goes in its own time. So a call whose
// results were dropped makes new ones without memory for handles.
//
//   site                       cell                                  who has a result
//   takes a spare one  ----->  array, buffer, memory: three parts -> let them go, on any thread
//   spare again        <-----  the last of the parts has gone
//
// Cells outlive their pool while somebody has a part. Any thread; taking one: with the ledger of
// the device locked.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "runtime/device/allocation.hpp"
#include "runtime/memory/array_state.hpp"
#include "runtime/memory/buffer_state.hpp"
#include "scheduler/protocol/inbox.hpp"
#include "scheduler/protocol/split_count.hpp"

namespace heddle::rt {

class ResultCells;

class ResultCell {
 public:
  explicit ResultCell(ResultCells& of) noexcept : of_(of) {}
  ResultCell(const ResultCell&) = delete;
  ResultCell& operator=(const ResultCell&) = delete;

  /// What a std::shared_ptr of a part counts lies in the cell.
  template <class T>
  struct Allocator {
    using value_type = T;
    Allocator(ResultCell& of, std::size_t at) noexcept : cell(&of), part(at) {}
    template <class U>
    Allocator(const Allocator<U>& other) noexcept  // NOLINT: allocators convert
        : cell(other.cell), part(other.part) {}
    [[nodiscard]] T* allocate(std::size_t count) const noexcept {
      static_assert(sizeof(T) <= room_bytes);
      static_cast<void>(count);  // one
      return reinterpret_cast<T*>(cell->rooms_[part].bytes);
    }
    void deallocate(T* /*at*/, std::size_t /*count*/) const noexcept { cell->end_part(); }
    template <class U>
    friend bool operator==(const Allocator& a, const Allocator<U>& b) noexcept {
      return a.cell == b.cell && a.part == b.part;
    }
    ResultCell* cell;
    std::size_t part;
  };

  /// Once it was taken, the three parts begin: of a buffer of `bytes` of that block.
  /// Throws std::bad_alloc, and then it has none.
  [[nodiscard]] std::shared_ptr<ArrayState> begin(const Device& device, const ArrayType& type,
                                                  dev::BlockRef block, std::size_t bytes);
  /// The same, of the memory that `giver` has until it is handed over.
  [[nodiscard]] std::shared_ptr<ArrayState> begin_promised(
      const Device& device, const ArrayType& type, std::shared_ptr<const BufferState> giver);

  ResultCell* next = nullptr;  ///< of its pool

 private:
  friend class ResultCells;
  static constexpr std::size_t parts = 3;
  static constexpr std::size_t room_bytes = 192;
  struct Room {
    alignas(std::max_align_t) std::byte bytes[room_bytes];
  };

  void end_part() noexcept;
  void make_buffer(const Execution& execution);
  std::shared_ptr<ArrayState> begin_handles(const Device& device, const ArrayType& type,
                                            std::size_t& begun);

  ResultCells& of_;
  std::atomic<std::uint32_t> left_{0};  // parts that somebody has
  std::optional<ArrayState> array_;
  std::optional<BufferState> buffer_;
  Room rooms_[parts];
};

/// The spare cells of a result on a device.
class ResultCells {
 public:
  ResultCells() = default;
  ResultCells(const ResultCells&) = delete;
  ResultCells& operator=(const ResultCells&) = delete;

  struct LetGo {
    void operator()(ResultCells* cells) const noexcept;
  };

  /// A spare one, or a new one. Under the ledger of the device. Throws std::bad_alloc.
  [[nodiscard]] ResultCell& take();
  /// One that was taken, and did not begin. Under the ledger.
  void put_back(ResultCell& cell) noexcept;

 private:
  friend class ResultCell;
  ~ResultCells();

  sched::Inbox<ResultCell> given_;
  ResultCell* ours_ = nullptr;  // taken out of `given_`
  sched::SplitCount<> cells_;   // that somebody has a part of
};

}  // namespace heddle::rt
