// InFlight: tickets that a consumer issues in order, and that end later: any thread may report an
// end, in any order, perhaps before the consumer has returned from the issue. Tickets are ended in
// ticket order, by one thread at a time: the first thread that finds no other thread ending
// tickets.
//
// One word per ticket says which of two arrivals have come: the consumer, after the issue, and the
// reporter of the end. The second arrival drains: it ends every ticket that is due, from the first
// ticket that has not ended. If a ticket is not due because an earlier ticket is not, the thread
// that later drains for the earlier ticket ends it, too.
//
//   consumer                                   reporter
//   completed >= ticket - most: there is room
//   word = ticket: begun
//   issues the task      ------------------->  learns that the task has ended
//   writes the data for the end        writes the report's data for the end
//   word |= issued: 2nd? drain                 word |= reported: 2nd? drain
//
//   drain: ask for a turn (Turns); while the word of the next ticket has both bits: end the ticket
//
// The function that ends a ticket may find the ticket not due yet for another reason; the code that
// removes this reason then calls drain().
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>

#include "scheduler/atomic.hpp"
#include "scheduler/protocol/turns.hpp"

namespace heddle::sched {

template <class Env = StdEnv>
class InFlight {
 public:
  /// At most `most` tickets are in flight at once; not 0. Throws std::bad_alloc.
  explicit InFlight(std::uint32_t most)
      : most_(most), mask_(std::bit_ceil(std::uint64_t{most}) - 1), words_(mask_ + 1) {}

  /// The ticket that must have completed before `ticket` begins; 0: none.
  [[nodiscard]] std::uint64_t room_after(std::uint64_t ticket) const noexcept {
    return ticket > most_ ? ticket - most_ : 0;
  }

  /// `ticket` will be issued now, and may be reported from here on. Called by the consumer, in
  /// ticket order.
  void begin(std::uint64_t ticket) noexcept {
    // relaxed: pairs with the additions in arrive(): the reporter receives the ticket after this
    // store.
    word(ticket).store(ticket << 2, std::memory_order_relaxed);
  }
  /// Called by the consumer after the issue, once for each ticket that began. Calls `end(ticket)`,
  /// in order, for tickets that have ended, as do the next two functions. `end` returns false if
  /// the ticket is not due yet; a thread must call drain() once the ticket is due.
  template <class End>
  void issued(std::uint64_t ticket, const End& end) noexcept {
    if (arrive(ticket, issued_bit)) drain(end);
  }
  /// The task has ended. Any thread, once for each ticket that began.
  template <class End>
  void reported(std::uint64_t ticket, const End& end) noexcept {
    if (arrive(ticket, reported_bit)) drain(end);
  }
  /// Called when a ticket may have become due for which `end` returned false. Any thread.
  template <class End>
  void drain(const End& end) noexcept {
    if (!drains_.ask()) return;
    std::uint64_t known = 1;
    do {
      while (ended(next_) && end(next_)) ++next_;
    } while (!drains_.end(known));
  }

 private:
  static constexpr std::uint64_t issued_bit = 1, reported_bit = 2, both = 3;

  /// True if the other arrival came first.
  [[nodiscard]] bool arrive(std::uint64_t ticket, std::uint64_t bit) noexcept {
    // release: pairs with the acquire in ended(): the thread that ends the ticket sees the earlier
    // writes of both arrivals; the second addition continues the release sequence of the first.
    return word(ticket).fetch_or(bit, std::memory_order_release) == (ticket << 2 | (both ^ bit));
  }
  /// Called by the draining thread. If the load misses a second arrival, the ticket is checked
  /// again: that arrival asks for a turn.
  [[nodiscard]] bool ended(std::uint64_t ticket) noexcept {
    // acquire: pairs with the releases in arrive().
    return word(ticket).load(std::memory_order_acquire) == (ticket << 2 | both);
  }
  [[nodiscard]] typename Env::template atomic<std::uint64_t>& word(std::uint64_t ticket) noexcept {
    return words_[static_cast<std::size_t>(ticket & mask_)];
  }

  const std::uint64_t most_;
  const std::uint64_t mask_;
  typename Env::template array<typename Env::template atomic<std::uint64_t>> words_;
  Turns<Env> drains_;
  // the first ticket that has not ended; Turns hands it from drain to drain
  std::uint64_t next_ = 1;
};

}  // namespace heddle::sched
