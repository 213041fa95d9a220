// Lane: a device's bounded task queue, one ring whose slot flag is the ticket. Many producers, one
// consumer.
//
// A producer is admitted and takes ticket t in one step (reserve), writes the task into slot t mod
// capacity, and publishes t in the slot's flag. The consumer waits for the flag of the next ticket.
// A slot is free again once `completed` has reached its ticket, which the caller of reserve()
// passes in: lane and timeline share that one number.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// Cold facts about a queued task, apart from the slot so that slots are one line.
struct TaskNote {
  const char* label = "";
  bool contain = false;
  bool is_wait = false;  ///< Device::wait(): a failed event poisons the device
  std::unique_ptr<std::vector<Event>> after{};  ///< null: starts as soon as its turn comes
};

template <class Env = StdEnv>
class Lane {
 public:
  struct alignas(tuning::line_bytes) Slot {
    typename Env::template atomic<std::uint64_t> flag{0};  // the ticket whose task is in here
    const TaskOps* ops = nullptr;
    alignas(16) std::byte callable[task_bytes_max];
  };
  static_assert(sizeof(Slot) == tuning::line_bytes, "a slot is one cache line");

  explicit Lane(std::uint32_t capacity)
      : capacity_(std::bit_ceil(capacity)),
        slots_(std::make_unique<Slot[]>(capacity_)),
        notes_(std::make_unique<TaskNote[]>(capacity_)) {}

  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }

  /// Tickets handed out so far.
  [[nodiscard]] std::uint64_t tickets() const noexcept {
    // acquire: pairs with the release in reserve(), so a reader of ticket t sees what happened
    // before it was taken.
    return tickets_.load(std::memory_order_acquire) & ~closed_bit;
  }

  /// No ticket is handed out from here on; those handed out stay good. Any thread.
  void close() noexcept {
    // acq_rel: release pairs with the acquire in closed(); who closes sees all tickets taken
    // before.
    tickets_.fetch_or(closed_bit, std::memory_order_acq_rel);
  }
  [[nodiscard]] bool closed() const noexcept {
    // acquire: pairs with the release in close().
    return (tickets_.load(std::memory_order_acquire) & closed_bit) != 0;
  }

  /// Takes the next ticket if fewer than capacity are outstanding; nullopt when the lane is full
  /// or closed. `completed` is read anew on each try. Any thread.
  template <class Completed>
  [[nodiscard]] std::optional<std::uint64_t> reserve(const Completed& completed) noexcept {
    // relaxed: the compare-exchange below validates it.
    std::uint64_t taken = tickets_.load(std::memory_order_relaxed);
    while (true) {
      if ((taken & closed_bit) != 0) return std::nullopt;
      if (taken - completed() >= capacity_) {
        // The count may be stale: full only if no ticket was taken meanwhile.
        // relaxed: validated as above.
        const std::uint64_t now = tickets_.load(std::memory_order_relaxed);
        if (now == taken) return std::nullopt;
        taken = now;
        continue;
      }
      // acq_rel: release pairs with the acquire in tickets(); acquire keeps ticket order a
      // happens-before order between producers. relaxed on failure: the loop starts over.
      if (tickets_.compare_exchange_weak(taken, taken + 1, std::memory_order_acq_rel,
                                         std::memory_order_relaxed)) {
        return taken + 1;
      }
    }
  }

  /// Fills the slot of a reserved ticket and publishes it. The thread that reserved it.
  void publish(std::uint64_t ticket, const TaskOps& ops, void* callable, TaskNote note) noexcept {
    Slot& slot = at(ticket);
    slot.ops = &ops;
    ops.relocate(slot.callable, callable);
    notes_[index(ticket)] = std::move(note);
    // seq_cst: release pairs with the acquire side of published(); the total order pairs with the
    // parked flag of the worker (worker.cpp: wake protocol).
    slot.flag.store(ticket, std::memory_order_seq_cst);
  }

  /// Whether the task of `ticket` is there. The consumer.
  [[nodiscard]] bool published(std::uint64_t ticket) const noexcept {
    // seq_cst: acquire pairs with the store in publish(); the total order is for the re-check
    // before parking.
    return at(ticket).flag.load(std::memory_order_seq_cst) == ticket;
  }

  /// The published task. The consumer, until it completes the ticket.
  [[nodiscard]] Slot& at(std::uint64_t ticket) noexcept { return slots_[index(ticket)]; }
  [[nodiscard]] const Slot& at(std::uint64_t ticket) const noexcept {
    return slots_[index(ticket)];
  }
  [[nodiscard]] TaskNote& note(std::uint64_t ticket) noexcept { return notes_[index(ticket)]; }

 private:
  [[nodiscard]] std::size_t index(std::uint64_t ticket) const noexcept {
    return static_cast<std::size_t>(ticket) & (capacity_ - 1);
  }

  /// Kept with the count, so that closing and taking a ticket are ordered by one word: a ticket
  /// taken before the close is seen by who closes, and none is taken after.
  static constexpr std::uint64_t closed_bit = std::uint64_t{1} << 63;

  const std::size_t capacity_;
  const std::unique_ptr<Slot[]> slots_;
  const std::unique_ptr<TaskNote[]> notes_;
  alignas(tuning::line_bytes)
      typename Env::template atomic<std::uint64_t> tickets_{0};  // producers
};

}  // namespace heddle::sched
