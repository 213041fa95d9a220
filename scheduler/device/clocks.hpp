// Clocks: the order of tasks given by submissions, waits and signals, never by the time at which a
// task happened to end: a vector clock for each ticket, as race detectors keep for threads
// (Flanagan and Freund, FastTrack, PLDI 2009). Clocks are kept while a Hold exists; without a Hold
// they cost nothing. Any thread.
//
// A task comes after the previous task of the timeline, after the listed events, and after the
// events known at submission. Inside a task, the known events are the task's predecessors and the
// ends seen by the task so far. Outside tasks, the known events are the ends seen by any thread of
// the host, because host threads may communicate in ways hidden from heddle. A thread sees an end
// by a wait, by a poll that finds the event done, or by a callback.
//
// A wait inside a task, or a signal, can add predecessors to a ticket submitted long before. Hence
// the order of two tasks may stay open until the later task has ended.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "heddle/event.hpp"
#include "scheduler/observe/trace.hpp"

namespace heddle::sched {

class Clocks {
 public:
  /// True while clocks are kept: every submission then takes the slow path.
  [[nodiscard]] static bool on() noexcept {
    return (trace::submits_on() & trace::submits_watched) != 0;
  }

  /// Clocks are kept while at least one Hold exists. Tickets submitted earlier count as known to
  /// every thread.
  class Hold {
   public:
    Hold();
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    const std::uint32_t fork_generation_;
  };

  // Calls that record order. If such a call has no memory, every ticket submitted so far counts as
  // known to every thread.

  /// `task` took its ticket on this thread and lists the events `after`. `learns`: the task runs
  /// user code, which may wait.
  static void submitted(const Event& task, std::span<const Event> after, bool learns) noexcept;
  /// `task` comes after `before` for a reason other than its list.
  static void comes_after(const Event& task, const Event& before) noexcept;
  /// The next ticket of `timeline` comes after `before`.
  static void next_comes_after(std::uint64_t timeline, const Event& before) noexcept;
  /// True if the next ticket of `timeline` gains predecessors not shared by earlier tickets.
  [[nodiscard]] static bool is_owed(std::uint64_t timeline) noexcept;
  /// The current task, or else the calling thread, knows the end of `event`. Afterwards runs the
  /// reports that are due.
  static void saw(const Event& event) noexcept;
  /// The host learns of the end on an arbitrary thread: from a callback or a descriptor.
  static void host_saw(const Event& event) noexcept;
  /// This thread is about to end `ticket`: it signals a foreign timeline (`foreign`), or calls
  /// end() of the Completion of a task in flight.
  static void ends(std::uint64_t timeline, std::uint64_t ticket, bool foreign) noexcept;
  /// Every ticket of `timeline` has ended, and the number of the timeline is never used again.
  static void closed(std::uint64_t timeline) noexcept;

  // Queries.

  enum class Answer : std::uint8_t {
    ordered,
    unordered,
    open,  ///< not ordered as far as is known yet
  };
  /// Returns whether `task` comes after `before`.
  [[nodiscard]] static Answer ask(const Event& task, const Event& before) noexcept;
  /// True if every later submission, from any thread, comes after `event`.
  [[nodiscard]] static bool is_seen(const Event& event) noexcept;
  /// True if the current action of this thread comes after `event`.
  [[nodiscard]] static bool is_seen_here(const Event& event) noexcept;
  /// Called when the answer was `open`: calls `tell`, which must not throw, once `task` has ended
  /// well, unless the two tasks turn out to be ordered. Throws std::bad_alloc.
  static void tell_unless_ordered(const Event& task, const Event& before,
                                  std::function<void()> tell);
  /// Runs the reports that are due, without holding a lock.
  static void tell_due() noexcept;
  /// The number of clocks kept.
  [[nodiscard]] static std::size_t size() noexcept;
};

}  // namespace heddle::sched
