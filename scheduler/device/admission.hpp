// Admission: the producers' side of a device: checks which threads may submit, makes room, takes
// tickets and publishes tasks. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

#include "heddle/scheduler.hpp"
#include "scheduler/device/control.hpp"
#include "scheduler/device/identity.hpp"
#include "scheduler/device/summons.hpp"
#include "scheduler/device/ticket_guard.hpp"
#include "scheduler/protocol/lane.hpp"
#include "scheduler/threads/thread_number.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

class Hooks;

/// Selects the overloads that first read how many tasks have completed.
struct Recount {};

class alignas(tuning::line_bytes) Admission {
 public:
  Admission(const Identity& device, Summons& summons, const Control& control)
      : place_{device.timeline.get(), device.id},
        lane_(*device.options.queue_size, device.profile.slots_ahead),
        device_(device),
        summons_(summons),
        control_(control) {}

  /// Fast path: returns the next ticket if this thread is the only producer and the cached count
  /// shows a free slot; else 0.
  [[nodiscard]] [[gnu::always_inline]] std::uint64_t reserve_alone() noexcept {
    return lane_.reserve_alone(known_thread_number());
  }
  /// The same after a recount of the free slots.
  [[nodiscard]] std::uint64_t reserve_alone(Recount /*recount*/) noexcept {
    return lane_.reserve_alone(known_thread_number(),
                               [this] { return device_.timeline->completed(); });
  }
  /// Slow path: submits a task on a device with several producers, a task whose producer must first
  /// recount the free slots, or a task that needs checks.
  [[nodiscard]] Event submit_otherwise(Label label, const TaskOps& ops, void* from) noexcept;
  /// submit_otherwise() with options. `guard`, if not null, is asked right before the ticket is
  /// taken.
  [[nodiscard]] Event submit_carefully(Label label, TaskNote& note, const TaskOps& ops, void* from,
                                       const SubmitOptions& options,
                                       TicketGuard* guard = nullptr) noexcept;
  /// The event of a taken ticket.
  [[nodiscard]] Event event(std::uint64_t ticket) const noexcept { return {place_, ticket}; }
  /// Submits an empty task that comes after `event`.
  [[nodiscard]] Event submit_wait(const Event& event) noexcept;
  /// The event of the latest ticket taken so far.
  [[nodiscard]] Event record() noexcept;

  [[nodiscard]] Lane<>& lane() noexcept { return lane_; }
  [[nodiscard]] const Lane<>& lane() const noexcept { return lane_; }
  /// True if every submitted task has ended.
  [[nodiscard]] bool drained() const noexcept {
    const std::uint64_t completed = device_.timeline->completed();
    return lane_.tickets() == completed;
  }

 private:
  [[nodiscard]] Status gather_after(TaskNote& note, const SubmitOptions& options) noexcept;
  [[nodiscard]] Status check() noexcept;
  [[nodiscard]] Status check_producer() noexcept;
  [[nodiscard]] std::uint64_t reserve(std::uint64_t me) noexcept {
    return lane_.reserve(me, [this] { return device_.timeline->completed(); });
  }
  [[nodiscard]] std::uint64_t reserve_guarded(TaskNote& note, std::size_t asked, bool full,
                                              const SubmitOptions& options, TicketGuard& guard,
                                              Status& why) noexcept;
  [[nodiscard]] Event submit_nothing(Label label, const SubmitOptions& options) noexcept;
  [[nodiscard]] Event publish(std::uint64_t ticket, Label label, const TaskOps& ops,
                              void* from) noexcept;
  [[nodiscard]] Event publish(std::uint64_t ticket, Label label, TaskNote& note, const TaskOps& ops,
                              void* from) noexcept;
  [[nodiscard]] Status make_room(const SubmitOptions& options) noexcept;
  void await_more_room(std::uint64_t ended) const noexcept;
  [[nodiscard]] Status wait_for_slot(std::uint64_t tickets, Runner::Deadline deadline) noexcept;

  const Event::Place place_;  // beside the lane's constants, which producers read too
  Lane<> lane_;
  const Identity& device_;
  Summons& summons_;
  const Control& control_;
  std::atomic<std::uint64_t> producer_{no_thread_number};  // the thread allowed by single_producer
};

}  // namespace heddle::sched
