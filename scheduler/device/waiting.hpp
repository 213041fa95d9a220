// Waiting: the single implementation of waits, for all waiters. Any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "heddle/scheduler.hpp"
#include "scheduler/device/waited.hpp"

namespace heddle::sched {

/// Waits for `event` in a way allowed on this thread: a task on a fiber is suspended, a host whose
/// devices run only in the host's waits runs them, other threads spin for `spin` and sleep. With
/// `heeds_stop`, a task stops waiting when it is asked to stop, or when its device was released
/// drain_max ago. A thread that reports the ends of a completion domain makes no wait without a
/// deadline, and a part of a task makes no wait at all.
[[nodiscard]] Waited wait_here(const Event& event, std::optional<Event::Clock::time_point> deadline,
                               std::chrono::nanoseconds spin, bool heeds_stop = true) noexcept;

/// True if only this thread would report the end of the event (D15).
[[nodiscard]] bool is_told_here(const Event& event) noexcept;

/// Waits for `event` and returns how the event ended, or why a wait is refused here.
[[nodiscard]] Status await_until(const Event& event,
                                 std::optional<Event::Clock::time_point> deadline) noexcept;

/// Why the operation `what`, which waits, is refused in a part of a task.
[[nodiscard]] Status part_refusal(const std::string& what);

/// The status of a wait that ended as `waited`.
[[nodiscard]] Status status_of(Waited waited, const Event& event);

}  // namespace heddle::sched
