// Waiting: the one way in which a wait is waited out, whoever waits. Any thread.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "heddle/scheduler.hpp"
#include "scheduler/device/waited.hpp"

namespace heddle::sched {

/// Waits for `event` in the way that this thread can: a task on a fiber is suspended, a host of
/// devices that nobody else runs runs them, all others spin for `spin` and sleep. A task that is
/// asked to stop, or whose device was let go of drain_max ago, stops waiting if it `heeds_stop`. A
/// thread that tells the ends of a completion domain waits for nothing without a deadline, and a
/// part of a task for nothing.
[[nodiscard]] Waited wait_here(const Event& event, std::optional<Event::Clock::time_point> deadline,
                               std::chrono::nanoseconds spin, bool heeds_stop = true) noexcept;

/// Whether this thread, and no other, would tell that the event is done (D15).
[[nodiscard]] bool is_told_here(const Event& event) noexcept;

/// Waits for `event` and tells how it ended; or why it is no use to wait here.
[[nodiscard]] Status await_until(const Event& event,
                                 std::optional<Event::Clock::time_point> deadline) noexcept;

/// Why `what`, which waits, is refused in a part of a task.
[[nodiscard]] Status part_refusal(const std::string& what);

/// The status of a wait that ended like this.
[[nodiscard]] Status status_of(Waited waited, const Event& event);

}  // namespace heddle::sched
