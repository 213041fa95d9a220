// Lane: a device's bounded task queue, one ring whose slot flag is the ticket. Many producers, one
// consumer.
//
// A producer is admitted and takes ticket t in one step (reserve), writes the task into slot t mod
// capacity, and publishes t in the slot's flag. The consumer waits for the flag of the next ticket.
// A slot is free again once `completed` has reached its ticket, which the caller of reserve()
// passes in: lane and timeline share that one number.
//
// The lane is biased towards the first thread that submits: while it is alone, its tickets cost
// plain stores. The first submission of another thread ends that, and tickets are taken by
// compare-exchange from then on, in the same ring and the same order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/atomic.hpp"
#include "scheduler/bias.hpp"
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
    bias_.revoke();
    // acq_rel: release pairs with the acquire in closed(); who closes sees all tickets taken
    // before.
    tickets_.fetch_or(closed_bit, std::memory_order_acq_rel);
  }
  [[nodiscard]] bool closed() const noexcept {
    // acquire: pairs with the release in close().
    return (tickets_.load(std::memory_order_acquire) & closed_bit) != 0;
  }

  /// Takes the next ticket if fewer than capacity are outstanding; nullopt when the lane is full
  /// or closed. `me` is the number of the calling thread. `completed` is read when it is needed.
  /// Any thread.
  template <class Completed>
  [[nodiscard]] std::optional<std::uint64_t> reserve(std::uint64_t me,
                                                     const Completed& completed) noexcept {
    if (bias_.enter(me) || (bias_.claim(me) && bias_.enter(me))) {
      // relaxed: this thread alone takes tickets.
      const std::uint64_t taken = tickets_.load(std::memory_order_relaxed);
      const bool room = has_room(taken, completed);
      // release: pairs with the acquire in tickets().
      if (room) tickets_.store(taken + 1, std::memory_order_release);
      bias_.leave();
      return room ? std::optional(taken + 1) : std::nullopt;
    }
    bias_.revoke();
    // relaxed: the compare-exchange below validates it.
    std::uint64_t taken = tickets_.load(std::memory_order_relaxed);
    while (true) {
      if ((taken & closed_bit) != 0) return std::nullopt;
      if (!has_room(taken, completed)) {
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

  /// Whether `me` is the one thread that submits, or nobody has yet and it is from now on.
  [[nodiscard]] bool belongs_to(std::uint64_t me) noexcept {
    return bias_.is_owner(me) || bias_.claim(me);
  }
  /// Most tickets that were outstanding at once.
  [[nodiscard]] std::uint64_t outstanding_max() const noexcept {
    // relaxed: a number for people.
    return outstanding_max_.load(std::memory_order_relaxed);
  }

  /// Fills the slot of a reserved ticket and publishes it. The thread that reserved it.
  void publish(std::uint64_t ticket, const TaskOps& ops, void* callable, TaskNote& note) noexcept {
    notes_[index(ticket)] = std::move(note);
    publish(ticket, ops, callable);
  }
  /// The same for a task that has nothing but a label.
  void publish(std::uint64_t ticket, const TaskOps& ops, void* callable,
               const char* label) noexcept {
    TaskNote& note = notes_[index(ticket)];  // what it comes after is none since its last use
    note.label = label;
    note.contain = note.is_wait = false;
    publish(ticket, ops, callable);
  }

  /// Whether the task of `ticket` is there. The consumer.
  [[nodiscard]] bool published(std::uint64_t ticket) const noexcept {
    // acquire: pairs with the release in publish().
    return at(ticket).flag.load(std::memory_order_acquire) == ticket;
  }

  /// The published task. The consumer, until it completes the ticket.
  [[nodiscard]] Slot& at(std::uint64_t ticket) noexcept { return slots_[index(ticket)]; }
  [[nodiscard]] const Slot& at(std::uint64_t ticket) const noexcept {
    return slots_[index(ticket)];
  }
  void destroy(std::uint64_t ticket) noexcept {
    Slot& slot = at(ticket);
    if (slot.ops->destroy != nullptr) slot.ops->destroy(slot.callable);
  }
  [[nodiscard]] TaskNote& note(std::uint64_t ticket) noexcept { return notes_[index(ticket)]; }

 private:
  void publish(std::uint64_t ticket, const TaskOps& ops, void* callable) noexcept {
    Slot& slot = at(ticket);
    slot.ops = &ops;
    if (ops.relocate == nullptr) {
      std::memcpy(slot.callable, callable, task_bytes_max);
    } else {
      ops.relocate(slot.callable, callable);
    }
    // release: pairs with the acquire in published().
    slot.flag.store(ticket, std::memory_order_release);
  }

  [[nodiscard]] std::size_t index(std::uint64_t ticket) const noexcept {
    return static_cast<std::size_t>(ticket) & (capacity_ - 1);
  }

  /// Whether one more ticket than `taken` fits. Reads the real `completed`, whose line belongs to
  /// the consumer, only when the last look does not tell, or when more tickets than ever may be
  /// outstanding.
  template <class Completed>
  [[nodiscard]] bool has_room(std::uint64_t taken, const Completed& completed) noexcept {
    // acquire: pairs with the release below: the slots that were seen free are free for us too.
    const std::uint64_t seen = seen_completed_.load(std::memory_order_acquire);
    // relaxed: never above the capacity, whoever wrote it.
    if (taken - seen < outstanding_max_.load(std::memory_order_relaxed)) return true;
    const std::uint64_t now = completed();
    if (now > taken) return true;  // `taken` is stale
    if (taken - now >= capacity_) return false;
    // release: pairs with the acquire above; it may go back, and is a lower bound all the same.
    seen_completed_.store(now, std::memory_order_release);
    // relaxed: as above. Producers that race may lose a maximum.
    if (taken - now >= outstanding_max_.load(std::memory_order_relaxed))
      outstanding_max_.store(taken - now + 1, std::memory_order_relaxed);
    return true;
  }

  /// Kept with the count, so that closing and taking a ticket are ordered by one word: a ticket
  /// taken before the close is seen by who closes, and none is taken after.
  static constexpr std::uint64_t closed_bit = std::uint64_t{1} << 63;

  const std::size_t capacity_;
  const std::unique_ptr<Slot[]> slots_;
  const std::unique_ptr<TaskNote[]> notes_;
  // The producers' line.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> tickets_{0};
  typename Env::template atomic<std::uint64_t> seen_completed_{0};
  typename Env::template atomic<std::uint64_t> outstanding_max_{0};
  Bias<Env> bias_;
};

static_assert(sizeof(Lane<>::Slot) == tuning::line_bytes, "a slot is one cache line");

}  // namespace heddle::sched
