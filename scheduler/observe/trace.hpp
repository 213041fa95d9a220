// Trace: records that threads make for a trace, each in a ring of its own (see heddle/observe.hpp
// for their use). While tracing is off, only on() is called. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/protocol/trace_ring.hpp"

namespace heddle::sched {

namespace trace {

using Kind = TraceEvent::Kind;
using Ended = TraceEvent::End;

/// A TraceEvent in stamps.
struct Record {
  std::uint64_t begin = 0, end = 0;
  std::uint64_t track = 0;
  std::uint64_t subject = 0;  // a task's label (a pointer); else the timeline
  std::uint64_t ticket = 0;
  Kind kind = Kind::task;
  Ended ended = Ended::done;
};
static_assert(sizeof(Record) == 48, "TraceOptions::events_max says so");

/// The number of the trace being recorded; 0: none.
[[gnu::visibility("hidden")]] extern std::atomic<std::uint32_t> session;
/// Bits of the observers of submits.
[[gnu::visibility("hidden")]] extern std::atomic<std::uint8_t> submits;
inline constexpr std::uint8_t submits_traced = 1;   ///< the trace records submits too
inline constexpr std::uint8_t submits_watched = 2;  ///< device/clocks.hpp

[[nodiscard]] inline bool on() noexcept {
  // acquire: pairs with the release in start_trace(): the clock is chosen.
  return session.load(std::memory_order_acquire) != 0;
}

[[nodiscard]] inline std::uint8_t submits_on() noexcept {
  // relaxed: pairs with the stores where traces and clocks start and stop; a thread that records
  // then reads the session, or data guarded by a lock.
  return submits.load(std::memory_order_relaxed);
}

/// The current time in ticks of the trace's clock; not 0.
[[nodiscard]] std::uint64_t stamp() noexcept;
/// stamp(), or 0 while tracing is off.
[[nodiscard]] inline std::uint64_t stamp_if_on() noexcept { return on() ? stamp() : 0; }

/// Records a task that ends now; returns the time of its end. `begin` 0: the task began before the
/// trace.
[[nodiscard]] std::uint64_t record_task(std::uint64_t begin, std::uint64_t timeline,
                                        const char* label, std::uint64_t ticket,
                                        Ended ended) noexcept;
/// Names a timeline in the trace being recorded, if any.
void name(std::uint64_t timeline, const std::string& name) noexcept;
/// Names all open timelines; defined by Timeline.
void name_open_timelines() noexcept;
[[nodiscard]] std::uint64_t track_of_thread() noexcept;
/// The track of the calling thread's actions: its innermost task's device, or the thread itself.
[[nodiscard]] std::uint64_t track_here() noexcept;

/// Device `timeline` slept, was woken, ran callbacks and the like from `begin` until now.
void record_pause(Kind kind, std::uint64_t track, std::uint64_t timeline, std::uint64_t ticket,
                  std::uint64_t begin) noexcept;
/// This thread submits or wakes: a point in time, which nests in any other record.
void record_point(Kind kind, std::uint64_t timeline, std::uint64_t ticket) noexcept;
/// The worker of `timeline`, or this worker of a pool (0), slept from `begin` until now; `begin` 0:
/// tracing was off then.
inline void record_park(std::uint64_t timeline, std::uint64_t begin) noexcept {
  if (begin != 0) [[unlikely]]
    record_pause(Kind::park, timeline != 0 ? timeline : track_of_thread(), timeline, 0, begin);
}
/// This thread wakes the worker of `timeline`, or a worker of a pool (0).
inline void note_wake(std::uint64_t timeline) noexcept {
  if (on()) [[unlikely]]
    record_point(Kind::wake, timeline, 0);
}

}  // namespace trace
}  // namespace heddle::sched
