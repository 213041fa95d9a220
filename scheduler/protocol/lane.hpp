// Lane: a device's bounded task queue, one ring whose slot flag is the ticket. Many producers, one
// consumer.
//
// A producer is admitted and takes ticket t in one step (reserve), builds the task in slot t mod
// capacity, and publishes the task there with a mark that tells t from the previous ticket of this
// slot. The consumer waits for the mark of the next ticket. A slot is free again once `completed`
// has reached the slot's ticket; the caller of reserve() passes `completed`, the number that lane
// and timeline share.
//
// The lane is biased towards the first thread that submits: while no other thread submits, its
// tickets cost plain stores. The first submission of another thread ends the bias, and tickets are
// taken by compare-exchange from then on, in the same ring and the same order.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <source_location>
#include <span>
#include <utility>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/atomic.hpp"
#include "scheduler/protocol/awaited.hpp"
#include "scheduler/protocol/bias.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// Facts about a task that few tasks need, stored apart from the slots, which keeps a slot in one
/// cache line.
struct TaskNote {
  bool contain = false;
  bool own_status = false;      ///< if contained: the event gets the task's status, unwrapped
  bool is_wait = false;         ///< TaskDevice::wait(): a failed event poisons the device
  AwaitedList after{};          ///< empty: starts as soon as its turn comes
  std::source_location site{};  ///< the submission's place, on devices that record sites

  /// Throws std::bad_alloc.
  void come_after(const Event& event, bool heeded = true) { after.add(event, heeded); }
};

/// The consumer's view of a slot that it checks for a ticket: `head` without the mark of that
/// ticket. If bits of a mark remain, the slot holds another ticket.
class Found {
 public:
  explicit constexpr Found(std::uint64_t bits) noexcept : bits_(bits) {}
  /// The task is published, and has no note.
  [[nodiscard]] constexpr bool plain() const noexcept { return bits_ >> 48 == 0; }
  [[nodiscard]] constexpr bool noted() const noexcept { return bits_ >= noted_bit; }
  [[nodiscard]] constexpr bool published() const noexcept {
    return (bits_ & ~noted_bit) >> 48 == 0;
  }
  /// The operations of a published task.
  [[nodiscard]] const TaskOps& ops() const noexcept {
    return *reinterpret_cast<const TaskOps*>(plain() ? bits_ : bits_ ^ noted_bit);
  }
  static constexpr std::uint64_t noted_bit = std::uint64_t{1} << 63;

 private:
  std::uint64_t bits_;
};

/// `mark_from`: the lowest bit of a ticket that is in its mark. The ring has at least 2^mark_from
/// slots, which makes the marks of consecutive tickets of a slot differ.
template <class Env = StdEnv, unsigned mark_from = tuning::mark_from>
class Lane {
 public:
  struct alignas(tuning::line_bytes) Slot {
    typename Env::template atomic<std::uint64_t> head{0};  // see head_of()
    const char* label = nullptr;
    alignas(16) std::byte callable[task_bytes_max];
  };

  /// `slots_ahead`: see SchedulerProfile.
  explicit Lane(std::uint32_t capacity, std::uint32_t slots_ahead = 0)
      : capacity_(std::bit_ceil(capacity)),
        mask_(std::max(capacity_, std::uint64_t{1} << mark_from) - 1),
        bytes_ahead_(slots_ahead * sizeof(Slot)),
        slots_(mask_ + 1),
        notes_(mask_ + 1) {}

  [[nodiscard]] std::uint64_t capacity() const noexcept { return capacity_; }

  /// Tickets handed out so far.
  [[nodiscard]] std::uint64_t tickets() const noexcept {
    // acquire: pairs with the releases where tickets are taken, so a reader of ticket t sees the
    // writes before t was taken.
    return tickets_.load(std::memory_order_acquire) & ~closed_bit;
  }

  /// No ticket is handed out from here on; earlier tickets stay valid. Any thread.
  void close() noexcept {
    bias_.revoke();
    // release: pairs with the acquire in closed(). A thread that closes and then calls tickets()
    // sees every ticket taken before the close.
    tickets_.fetch_or(closed_bit, std::memory_order_release);
  }
  [[nodiscard]] bool closed() const noexcept {
    // acquire: pairs with the release in close().
    return (tickets_.load(std::memory_order_acquire) & closed_bit) != 0;
  }

  /// The next ticket, if the lane is biased towards the calling thread and room is evident; 0:
  /// otherwise, and the caller must use reserve(). `me`: the number of the calling thread.
  [[nodiscard]] std::uint64_t reserve_alone(std::uint64_t me) noexcept {
    if (!bias_.enter(me)) return 0;
    // relaxed: this thread alone takes tickets.
    const std::uint64_t taken = tickets_.load(std::memory_order_relaxed);
    // relaxed: written by this thread alone, as long as this thread can be inside the bias.
    const bool room = taken < limit_.load(std::memory_order_relaxed);
    // release: pairs with the acquire in tickets().
    if (room) [[likely]]
      tickets_.store(taken + 1, std::memory_order_release);
    bias_.leave();
    return room ? taken + 1 : 0;
  }

  /// reserve_alone() that reads `completed` to find room.
  template <class Completed>
  [[nodiscard]] std::uint64_t reserve_alone(std::uint64_t me, const Completed& completed) noexcept {
    return bias_.enter(me) ? reserve_inside(completed) : 0;
  }

  /// Takes the next ticket if fewer than capacity are outstanding; 0: the lane is full or closed.
  /// `completed` is read only if needed. Any thread.
  template <class Completed>
  [[nodiscard]] std::uint64_t reserve(std::uint64_t me, const Completed& completed) noexcept {
    if (bias_.enter(me) || (bias_.claim(me) && bias_.enter(me))) return reserve_inside(completed);
    bias_.revoke();
    // relaxed: the compare-exchange below validates it.
    std::uint64_t taken = tickets_.load(std::memory_order_relaxed);
    while (true) {
      if ((taken & closed_bit) != 0) return 0;
      if (!has_room(taken, completed)) {
        // The count may be stale: full only if no ticket was taken meanwhile.
        // relaxed: validated as above.
        const std::uint64_t now = tickets_.load(std::memory_order_relaxed);
        if (now == taken) return 0;
        taken = now;
        continue;
      }
      // acq_rel: release pairs with the acquire in tickets(); acquire keeps ticket order a
      // happens-before order between producers. relaxed on failure: the loop starts over.
      if (tickets_.compare_exchange_weak(taken, taken + 1, std::memory_order_acq_rel,
                                         std::memory_order_relaxed)) {
        // Without the prefetch, each compare-exchange waits until the consumer's processor has
        // given up the line of the previous slot.
        fetch_ahead(at(taken + 1));
        return taken + 1;
      }
    }
  }

  /// The maximum of tickets outstanding at once, as seen by producers: maxima up to
  /// tuning::unseen_max may be missed.
  [[nodiscard]] std::uint64_t outstanding_max() const noexcept {
    // relaxed: a number for people.
    return outstanding_max_.load(std::memory_order_relaxed);
  }

  /// The slot of a reserved ticket, in which the callable is built; prefetches the slot ahead,
  /// which will soon be written. Called by the thread that reserved the ticket.
  [[nodiscard]] Slot& begin(std::uint64_t ticket) noexcept {
    Slot& slot = at(ticket);
    fetch_ahead(slot);
    return slot;
  }
  /// The slot that contains the memory of `callable`.
  [[nodiscard]] static Slot& slot_of(void* callable) noexcept {
    return *reinterpret_cast<Slot*>(static_cast<std::byte*>(callable) - offsetof(Slot, callable));
  }
  /// Publishes the task that was built in `slot`.
  static void publish(Slot& slot, std::uint64_t ticket, const char* label,
                      const TaskOps& ops) noexcept {
    publish_head(slot, head_of(ticket, ops), label);
  }
  /// Builds the task of a reserved ticket in its slot and publishes it.
  void publish(std::uint64_t ticket, const char* label, const TaskOps& ops, void* from) noexcept {
    Slot& slot = at(ticket);
    ops.construct(slot.callable, from);
    publish_head(slot, head_of(ticket, ops), label);
  }
  /// publish() for a task with a note.
  void publish(std::uint64_t ticket, const char* label, const TaskOps& ops, void* from,
               TaskNote& note) noexcept {
    ops.construct(at(ticket).callable, from);
    publish(ticket, label, ops, note);
  }
  /// Publishes a task with a note, which was built in the ticket's slot.
  void publish(std::uint64_t ticket, const char* label, const TaskOps& ops,
               TaskNote& note) noexcept {
    notes_[index(ticket)] = std::move(note);
    publish_head(at(ticket), head_of(ticket, ops) ^ Found::noted_bit, label);
  }

  /// The view of `ticket`'s slot. Called by the consumer.
  [[nodiscard]] Found look(std::uint64_t ticket) const noexcept { return look(at(ticket), ticket); }
  [[nodiscard]] static Found look(const Slot& slot, std::uint64_t ticket) noexcept {
    // acquire: pairs with the release in publish_head().
    return Found(slot.head.load(std::memory_order_acquire) ^ mark(ticket));
  }
  /// The slots of `ticket` and of the tickets that follow, as far as the slots are adjacent; at
  /// most `count`.
  [[nodiscard]] std::span<Slot> stretch(std::uint64_t ticket, std::uint64_t count) noexcept {
    return {&at(ticket), std::min<std::size_t>(count, mask_ + 1 - index(ticket))};
  }

  /// A published task, and its note if there is one. Called by the consumer, until it completes the
  /// ticket.
  [[nodiscard]] Slot& at(std::uint64_t ticket) noexcept { return slots_[index(ticket)]; }
  [[nodiscard]] const Slot& at(std::uint64_t ticket) const noexcept {
    return slots_[index(ticket)];
  }
  [[nodiscard]] TaskNote& note(std::uint64_t ticket) noexcept { return notes_[index(ticket)]; }

 private:
  /// Called inside the bias; leaves the bias.
  template <class Completed>
  [[nodiscard]] std::uint64_t reserve_inside(const Completed& completed) noexcept {
    // relaxed: this thread alone takes tickets.
    const std::uint64_t taken = tickets_.load(std::memory_order_relaxed);
    const bool room = has_room(taken, completed);
    // release: pairs with the acquire in tickets().
    if (room) tickets_.store(taken + 1, std::memory_order_release);
    bias_.leave();
    return room ? taken + 1 : 0;
  }

  /// Bits of the ticket at positions that are 0 in pointers (static objects lie below 2^48), and
  /// some more bits. Consecutive tickets of one slot differ in bits 48 to 62; the mark of a slot's
  /// first ticket is not 0.
  [[nodiscard]] static constexpr std::uint64_t mark(std::uint64_t ticket) noexcept {
    return std::rotl(ticket + (std::uint64_t{1} << mark_from), 48 - mark_from);
  }
  [[nodiscard]] static std::uint64_t head_of(std::uint64_t ticket, const TaskOps& ops) noexcept {
    return reinterpret_cast<std::uint64_t>(&ops) ^ mark(ticket);
  }
  static void publish_head(Slot& slot, std::uint64_t head, const char* label) noexcept {
    slot.label = label;
    // release: pairs with the acquire in look().
    slot.head.store(head, std::memory_order_release);
  }
  /// Only a hint: behind the last slot the prefetch is useless.
  void fetch_ahead(const Slot& slot) const noexcept {
    prefetch_to_write(
        reinterpret_cast<const void*>(reinterpret_cast<std::uintptr_t>(&slot) + bytes_ahead_));
  }

  [[nodiscard]] std::size_t index(std::uint64_t ticket) const noexcept {
    return static_cast<std::size_t>(ticket & mask_);
  }

  template <class Completed>
  [[nodiscard]] bool has_room(std::uint64_t taken, const Completed& completed) noexcept {
    // acquire: pairs with the release in find_room(): the slots that were found free are free for
    // this thread too.
    return taken < limit_.load(std::memory_order_acquire) || find_room(taken, completed);
  }

  /// Whether one more ticket than `taken` fits. Called if the last look does not tell, or if more
  /// tickets than ever before may be outstanding. Reads the real `completed`, whose line belongs to
  /// the consumer.
  template <class Completed>
  [[nodiscard]] bool find_room(std::uint64_t taken, const Completed& completed) noexcept {
    const std::uint64_t now = completed();
    if (now > taken) return true;  // `taken` is stale
    if (taken - now >= capacity_) return false;
    // relaxed: never above the capacity, whichever thread wrote the maximum. Racing producers may
    // lose a maximum.
    std::uint64_t most = outstanding_max_.load(std::memory_order_relaxed);
    if (taken - now >= most) {
      most = taken - now + 1;
      outstanding_max_.store(most, std::memory_order_relaxed);  // relaxed: as above
    }
    most = std::max(most, std::min(capacity_, tuning::unseen_max));
    // release: pairs with the acquires of threads that read limit_. limit_ may decrease, and stays
    // valid.
    limit_.store(now + most, std::memory_order_release);
    return true;
  }

  /// Part of the same word as the ticket count, which orders the close and the taking of tickets:
  /// the closing thread sees every ticket taken before the close, and no ticket is taken
  /// afterwards.
  static constexpr std::uint64_t closed_bit = std::uint64_t{1} << 63;

  const std::uint64_t capacity_;
  const std::uint64_t mask_;  // slots less one
  const std::uint64_t bytes_ahead_;
  typename Env::template array<Slot> slots_;
  typename Env::template array<TaskNote> notes_;  // notes of ended tasks have no members to destroy
  // The producers' line.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> tickets_{0};
  typename Env::template atomic<std::uint64_t> limit_{0};  // every ticket up to this one fits
  typename Env::template atomic<std::uint64_t> outstanding_max_{0};
  Bias<Env> bias_;
};

static_assert(sizeof(Lane<>::Slot) == tuning::line_bytes, "a slot is one cache line");
static_assert(queue_size_max < std::uint64_t{1} << (tuning::mark_from + 15),
              "tickets that share a slot differ in their marks");

}  // namespace heddle::sched
