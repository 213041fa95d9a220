// WaitGraph: which devices' consumers wait for which events, so that a wait that would close a
// cycle is refused (S4, S16, S25). Slow path: for threads about to sleep and tasks about to
// suspend. Any thread.
//
// A device ends its tickets in order, so whoever waits for one of them waits for the task that its
// consumer is at. A consumer waits for one event at a time. So each device has one wait at most,
// and the waits form trees. A cycle comes about by the wait that closes it, and by nothing else; as
// one lock makes looking for it and noting the wait one step, of two that would close a cycle
// together the second one is refused.
//
//   a's task waits for b#3 ---> b's gate waits for c#5 ---> c's task asks for a#2: refused
//
// A wait with a deadline ends by itself and holds nobody up for ever: it is refused when it closes
// a cycle, but never noted. What a foreign signaller waits for is not known.
#pragma once

#include <cstdint>
#include <stop_token>

#include "heddle/scheduler.hpp"

namespace heddle::sched {

struct TaskContext;

/// What the consumer of a timeline's device waits for. Guarded by the graph's lock.
struct GraphWait {
  const Timeline* target = nullptr;  ///< null: nothing
  std::uint64_t id = 0;              ///< that of the timeline that is waited for
  std::uint64_t ticket = 0;
  const char* label = "";  ///< that of the task that waits
  std::stop_token stop{};  ///< ends the wait
  // Timelines that wait for this one: the first, and the neighbours of each.
  const Timeline* first_waiter = nullptr;
  const Timeline* next = nullptr;
  const Timeline* previous = nullptr;
};

/// How somebody waits.
struct WaitManner {
  bool holds_up = false;  ///< also the tasks beneath: their stack is this one
  bool timed = false;     ///< until a deadline
};

class WaitGraph {
 public:
  /// `task` begins to wait for `event`. Not ok: it, or a task that it holds up, would wait for
  /// itself, and how; then nothing is noted.
  [[nodiscard]] static Status enter(const TaskContext& task, const Event& event, WaitManner manner,
                                    const std::stop_token& stop) noexcept;
  /// What enter() noted is over. May be called for nothing.
  static void leave(const TaskContext& task, WaitManner manner) noexcept;

 private:
  struct Hop;
  struct Walk;
  static void link(const Timeline& waiter, const GraphWait& wait) noexcept;
  static void unlink(const Timeline& waiter) noexcept;
};

}  // namespace heddle::sched
