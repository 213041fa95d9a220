// WaitGraph: which devices' consumers wait for which events, in order to refuse a wait that would
// close a cycle (S4, S16, S25). Slow path: for threads about to sleep and tasks about to suspend.
// Any thread.
//
// A device ends its tickets in order: a wait for any ticket is a wait for the consumer's current
// task. A consumer waits for one event at a time. Hence each device has at most one wait, and the
// waits form trees. Only the wait that closes a cycle creates the cycle. A single lock covers the
// search for a cycle and the noting of a wait: of two waits that would close a cycle together the
// second is refused.
//
//   a's task waits for b#3 ---> b's gate waits for c#5 ---> c's task asks for a#2: refused
//
// A wait with a deadline ends by itself and blocks no task for ever: it is refused when it closes a
// cycle, but never noted. The waits of foreign signallers are not known.
#pragma once

#include <cstdint>
#include <stop_token>

#include "heddle/scheduler.hpp"

namespace heddle::sched {

struct TaskContext;

/// The wait of the consumer of a timeline's device. Guarded by the graph's lock.
struct GraphWait {
  const Timeline* target = nullptr;  ///< the awaited timeline; null: no wait
  std::uint64_t id = 0;              ///< the number of the awaited timeline
  std::uint64_t ticket = 0;
  const char* label = "";  ///< the label of the waiting task
  std::stop_token stop{};  ///< ends the wait
  // The waiters of this timeline: the first of them, and the neighbours of each.
  const Timeline* first_waiter = nullptr;
  const Timeline* next = nullptr;
  const Timeline* previous = nullptr;
};

/// The manner of a wait.
struct WaitManner {
  bool holds_up = false;  ///< also blocks the tasks beneath on the same stack
  bool timed = false;     ///< until a deadline
};

class WaitGraph {
 public:
  /// `task` begins to wait for `event`. A failed status: the task, or a task blocked by the wait,
  /// would wait for itself, with the cycle in the message; the wait is then not noted.
  [[nodiscard]] static Status enter(const TaskContext& task, const Event& event, WaitManner manner,
                                    const std::stop_token& stop) noexcept;
  /// Ends the wait that enter() noted. May be called without a noted wait.
  static void leave(const TaskContext& task, WaitManner manner) noexcept;

 private:
  struct Hop;
  struct Walk;
  static void link(const Timeline& waiter, const GraphWait& wait) noexcept;
  static void unlink(const Timeline& waiter) noexcept;
};

}  // namespace heddle::sched
