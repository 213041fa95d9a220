// LateEnds: the tickets of a device that issues tasks and learns later that they have ended (S23):
// how many are in flight, what their ends need, and the thread that ends them, in ticket order: the
// completer. That is whichever thread learns that a ticket ended, the consumer or a Completion's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "heddle/scheduler.hpp"
#include "scheduler/device/ending.hpp"
#include "scheduler/device/hand_over.hpp"
#include "scheduler/device/identity.hpp"
#include "scheduler/device/running_task.hpp"
#include "scheduler/device/summons.hpp"
#include "scheduler/device/task_trace.hpp"
#include "scheduler/protocol/in_flight.hpp"
#include "scheduler/protocol/lane.hpp"

namespace heddle::sched {

class LateEnds {
 public:
  /// `ending` ends by running() and trace(). Throws std::bad_alloc.
  LateEnds(const Identity& device, Lane<>& lane, Summons& summons, Control& control,
           Ending& ending);

  // The consumer.

  /// The last ticket that it has begun. Any thread.
  [[nodiscard]] std::uint64_t begun() const noexcept {
    // relaxed: pairs with the store in begin(): the consumer's own; a number for others.
    return begun_.load(std::memory_order_relaxed);
  }
  /// What has to have ended before `ticket` begins.
  [[nodiscard]] std::uint64_t begins_after(std::uint64_t ticket) const noexcept;
  /// The next ticket, whose task will be issued, or not run at all. `handed`: what it comes after,
  /// some of which the hardware waits for; null: it waits for nothing.
  void begin(std::uint64_t ticket, AwaitedList handed) noexcept;
  /// What a gate waits for on account of `event`, where hardware can wait for the rest: that it is
  /// issued. Else `event` itself.
  [[nodiscard]] Event gate_of(const Event& event) const noexcept;
  /// Whether the hardware waits for `event`, which is issued, before what is issued from here on.
  [[nodiscard]] bool hand_over(const Event& event) noexcept;
  /// Somebody will report the ticket that is being issued.
  void expect_report(std::uint64_t ticket) noexcept { entry(ticket).awaited = true; }
  /// It was issued; not ok: that failed.
  void issued(std::uint64_t ticket, Status failure) noexcept;
  /// What does not wait for a report, once it has begun: a task that ran, and has no callable any
  /// more; and what Ending calls refused, and dropped.
  void ran(std::uint64_t ticket) noexcept { end_at_once(ticket, How::ran, {}); }
  void refused(std::uint64_t ticket, Status why) noexcept {
    end_at_once(ticket, How::refused, std::move(why));
  }
  void dropped(std::uint64_t ticket, End end, Status why) noexcept {
    end_at_once(ticket, end == End::skipped ? How::skipped : How::cancelled, std::move(why));
  }

  // Any thread.

  /// The task has ended. Once, by what expect_report() announced.
  void reported(std::uint64_t ticket, Status status) noexcept;
  /// The first ticket that has not ended, if it has begun.
  void show(Snapshot& snapshot) const;

  /// See HardwareQueue::give(). Throws std::bad_alloc.
  void have_hardware(std::shared_ptr<HardwareQueue> queue);

  // For Ending.

  [[nodiscard]] const RunningTask& running() const noexcept { return running_; }
  [[nodiscard]] TaskTrace& trace() noexcept { return trace_; }

 private:
  enum class How : std::uint8_t { issued, ran, refused, skipped, cancelled };
  /// What the end of a ticket needs. Written by the consumer, but for `reported`.
  struct Entry {
    std::atomic<std::uint64_t> ticket{0};  // with the next two, for people
    std::atomic<const char*> label{nullptr};
    std::atomic<std::int64_t> since_ns{0};
    How how = How::issued;
    bool awaited = false;  // somebody will report it
    Status why;            // why it ends so
    AwaitedList handed;    // ends before it
    Status reported;
    std::uint64_t stamp = 0;  // when it began; 0: not traced
  };

  void end_at_once(std::uint64_t ticket, How how, Status why) noexcept;
  [[nodiscard]] bool end(std::uint64_t ticket) noexcept;
  [[nodiscard]] Status how_it_went(std::uint64_t ticket, Entry& entry) noexcept;
  void look_again() noexcept;
  void tell_consumer() noexcept;
  [[nodiscard]] Entry& entry(std::uint64_t ticket) noexcept {
    return entries_[ticket % entries_.size()];
  }

  const Identity& device_;
  Lane<>& lane_;
  Summons& summons_;
  Control& control_;
  Ending& ending_;
  InFlight<> in_flight_;
  std::vector<Entry> entries_;
  std::atomic<std::uint64_t> begun_{0};
  std::shared_ptr<HandOver> hand_over_;  // constant once there are tasks; null: no hardware waits

  // The completer's, as InFlight hands them on.
  RunningTask running_;
  TaskTrace trace_;
};

}  // namespace heddle::sched
