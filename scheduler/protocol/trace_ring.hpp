// TraceRing: the records that a thread writes until a reader takes them. One writer and one reader
// at a time.
//
//   writer                                        reader
//   written_ - read_ = capacity? drop, count      reads written_: the number of records
//   record into its slot, written_ += 1           record out of its slot, read_ += 1
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// A bounded ring between one writer and one reader. The ring overwrites no records: a record that
/// finds the ring full is dropped, and counted.
template <class Record, class Env = StdEnv>
class TraceRing {
 public:
  /// `capacity` is a power of two.
  explicit TraceRing(std::size_t capacity)
      : capacity_(capacity), records_(std::make_unique<Record[]>(capacity)) {}

  /// Called by the writer.
  void write(const Record& record) noexcept {
    // relaxed: written by this thread.
    const std::uint64_t at = written_.load(std::memory_order_relaxed);
    if (at - seen_read_ >= capacity_) [[unlikely]] {
      // acquire: pairs with the release in read(): the reader has copied the record to be
      // overwritten.
      seen_read_ = read_.load(std::memory_order_acquire);
      if (at - seen_read_ >= capacity_) {
        // relaxed: one writer; pairs with the load in dropped(), and orders no other access.
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    records_[static_cast<std::size_t>(at) & (capacity_ - 1)] = record;
    // release: pairs with the acquire in read().
    written_.store(at + 1, std::memory_order_release);
  }

  /// Calls take(record) for every record in the ring, oldest first. Called by the reader.
  template <class Take>
  void read(const Take& take) {
    // relaxed: written by this thread.
    std::uint64_t at = read_.load(std::memory_order_relaxed);
    // acquire: pairs with the release in write().
    for (const std::uint64_t end = written_.load(std::memory_order_acquire); at != end; ++at) {
      take(records_[static_cast<std::size_t>(at) & (capacity_ - 1)]);
      // release: pairs with the acquire in write().
      read_.store(at + 1, std::memory_order_release);
    }
  }

  /// Any thread.
  [[nodiscard]] std::uint64_t dropped() const noexcept {
    // relaxed: see write().
    return dropped_.load(std::memory_order_relaxed);
  }

 private:
  const std::size_t capacity_;
  const std::unique_ptr<Record[]> records_;
  // The writer's line.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> written_{0};
  std::uint64_t seen_read_ = 0;
  typename Env::template atomic<std::uint64_t> dropped_{0};
  // The reader's line.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> read_{0};
};

}  // namespace heddle::sched
