// LateEnds: the tickets of a device that issues tasks and learns later that they have ended (S23):
// the tickets in flight, the data that their ends need, and the thread that ends them in ticket
// order: the completer. The completer is whichever thread learns that a ticket ended, the consumer
// or a Completion's thread.
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
  /// `ending` ends tickets with running() and trace(). Throws std::bad_alloc.
  LateEnds(const Identity& device, Lane<>& lane, Summons& summons, Control& control,
           Ending& ending);

  // Called by the consumer.

  /// The last ticket that the consumer has begun. Any thread.
  [[nodiscard]] std::uint64_t begun() const noexcept {
    // relaxed: pairs with the store in begin(): the consumer reads its own store; other threads
    // only show the number.
    return begun_.load(std::memory_order_relaxed);
  }
  /// The ticket that must have ended before `ticket` begins.
  [[nodiscard]] std::uint64_t begins_after(std::uint64_t ticket) const noexcept;
  /// Begins the next ticket, whose task will be issued, or not run at all. `handed`: predecessors
  /// of the task, some of which the hardware waits for; null: the hardware waits for none.
  void begin(std::uint64_t ticket, AwaitedList handed) noexcept;
  /// The event that a gate waits for in place of `event`: the issue of `event`'s task if the
  /// hardware can wait for the rest; otherwise `event`.
  [[nodiscard]] Event gate_of(const Event& event) const noexcept;
  /// True if the hardware waits for the issued `event` before tasks issued from now on.
  [[nodiscard]] bool hand_over(const Event& event) noexcept;
  /// A thread will report the end of the ticket that is being issued.
  void expect_report(std::uint64_t ticket) noexcept { entry(ticket).awaited = true; }
  /// The ticket was issued; a failed status: issuing failed.
  void issued(std::uint64_t ticket, Status failure) noexcept;
  /// Ends of tickets that wait for no report, once begun: a task that ran and whose callable is
  /// destroyed, and tasks refused or dropped (see Ending).
  void ran(std::uint64_t ticket) noexcept { end_at_once(ticket, How::ran, {}); }
  void refused(std::uint64_t ticket, Status why) noexcept {
    end_at_once(ticket, How::refused, std::move(why));
  }
  void dropped(std::uint64_t ticket, End end, Status why) noexcept {
    end_at_once(ticket, end == End::skipped ? How::skipped : How::cancelled, std::move(why));
  }

  // Any thread.

  /// The task has ended. Called once, by the thread that expect_report() announced.
  void reported(std::uint64_t ticket, Status status) noexcept;
  /// Shows the first ticket that has not ended, if the ticket has begun.
  void show(Snapshot& snapshot) const;

  /// See HardwareQueue::give(). Throws std::bad_alloc.
  void have_hardware(std::shared_ptr<HardwareQueue> queue);

  // For Ending.

  [[nodiscard]] const RunningTask& running() const noexcept { return running_; }
  [[nodiscard]] TaskTrace& trace() noexcept { return trace_; }

 private:
  enum class How : std::uint8_t { issued, ran, refused, skipped, cancelled };
  /// The data that the end of a ticket needs. The consumer writes every member except `reported`.
  struct Entry {
    std::atomic<std::uint64_t> ticket{0};  // with the next two members, for snapshots
    std::atomic<const char*> label{nullptr};
    std::atomic<std::int64_t> since_ns{0};
    How how = How::issued;
    bool awaited = false;  // a thread will report the end
    Status why;            // the reason for this end
    AwaitedList handed;    // predecessors that end before the ticket
    Status reported;
    std::uint64_t stamp = 0;  // when the task began; 0: not traced
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

  // Used by the completer; InFlight hands them from one completer to the next.
  RunningTask running_;
  TaskTrace trace_;
};

}  // namespace heddle::sched
