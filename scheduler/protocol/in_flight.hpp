// InFlight: tickets that a consumer issues in order, and that end later: by word of any thread, in
// any order, perhaps before the consumer has come back from issuing them. Tickets are ended in
// their order, by one thread at a time: the first to find that none is at it.
//
// A word a ticket says which of the two have come: the consumer, back from issuing, and the
// reporter of the end. The second of them drains: ends all tickets that are due, from the first
// that has not ended. One that is not due, because an earlier ticket is not, is found by the thread
// that drains for that.
//
//   consumer                                   reporter
//   completed >= ticket - most: there is room
//   word = ticket: begun
//   issues it            ------------------->  learns that it has ended
//   what the end needs of the issue            what the end needs of the report
//   word |= issued: 2nd? drain                 word |= reported: 2nd? drain
//
//   drain: ask for a turn (Turns); while the word of the next ticket says both: end it
//
// What ends a ticket may find it not due, for the sake of something else: then that drains later.
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

  /// The ticket that has to have completed before `ticket` begins; 0: none has to.
  [[nodiscard]] std::uint64_t room_after(std::uint64_t ticket) const noexcept {
    return ticket > most_ ? ticket - most_ : 0;
  }

  /// It will be issued now, and may be reported from here on. The consumer, in ticket order.
  void begin(std::uint64_t ticket) noexcept {
    // relaxed: pairs with the additions in arrive(): the reporter was given the ticket after this.
    word(ticket).store(ticket << 2, std::memory_order_relaxed);
  }
  /// After it was issued. The consumer, once for each ticket that began. Calls `end(ticket)`, in
  /// order, for tickets that have ended; so does what follows. false: it is not due, and somebody
  /// will drain() once it is.
  template <class End>
  void issued(std::uint64_t ticket, const End& end) noexcept {
    if (arrive(ticket, issued_bit)) drain(end);
  }
  /// It has ended. Any thread, once for each ticket that began.
  template <class End>
  void reported(std::uint64_t ticket, const End& end) noexcept {
    if (arrive(ticket, reported_bit)) drain(end);
  }
  /// What a ticket was not due for may have come. Any thread.
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

  /// Whether the other one has been there.
  [[nodiscard]] bool arrive(std::uint64_t ticket, std::uint64_t bit) noexcept {
    // release: pairs with the acquire in ended(): the thread that ends the ticket sees what each of
    // the two did before; the second addition goes on with the release of the first.
    return word(ticket).fetch_or(bit, std::memory_order_release) == (ticket << 2 | (both ^ bit));
  }
  /// The thread that drains. A ticket of which this is seen late is looked for again: its second
  /// one asks.
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
  std::uint64_t next_ = 1;  // the first that has not ended; Turns hands it from drain to drain
};

}  // namespace heddle::sched
