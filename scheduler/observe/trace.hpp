// Trace: what threads note down for a trace, each in a ring of its own (heddle/observe.hpp has what
// becomes of it). While off, on() is all that is called. Any thread.
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
/// Who looks at submits: bits.
[[gnu::visibility("hidden")]] extern std::atomic<std::uint8_t> submits;
inline constexpr std::uint8_t submits_traced = 1;   ///< they are recorded too
inline constexpr std::uint8_t submits_watched = 2;  ///< device/clocks.hpp

[[nodiscard]] inline bool on() noexcept {
  // acquire: pairs with the release in start_trace(): the clock is chosen.
  return session.load(std::memory_order_acquire) != 0;
}

[[nodiscard]] inline std::uint8_t submits_on() noexcept {
  // relaxed: pairs with the stores where traces and clocks start and stop; a thread that records
  // looks at the session, or at what a lock guards.
  return submits.load(std::memory_order_relaxed);
}

/// Now, in ticks of the trace's clock; not 0.
[[nodiscard]] std::uint64_t stamp() noexcept;
/// The same, or 0 while off.
[[nodiscard]] inline std::uint64_t stamp_if_on() noexcept { return on() ? stamp() : 0; }

/// Notes down a task that ends now, which it returns. `begin` 0: it began before the trace did.
[[nodiscard]] std::uint64_t record_task(std::uint64_t begin, std::uint64_t timeline,
                                        const char* label, std::uint64_t ticket,
                                        Ended ended) noexcept;
/// Names a timeline in the trace that is recorded, if any.
void name(std::uint64_t timeline, const std::string& name) noexcept;
/// The same for all that are open; Timeline's.
void name_open_timelines() noexcept;
[[nodiscard]] std::uint64_t track_of_thread() noexcept;
/// What the calling thread does belongs to this track: its innermost task's device, or itself.
[[nodiscard]] std::uint64_t track_here() noexcept;

/// Device `timeline` slept, was woken, called back ...: from `begin` until now.
void record_pause(Kind kind, std::uint64_t track, std::uint64_t timeline, std::uint64_t ticket,
                  std::uint64_t begin) noexcept;
/// This thread submits or wakes: a point in time, which nests in whatever is there.
void record_point(Kind kind, std::uint64_t timeline, std::uint64_t ticket) noexcept;
/// The worker of `timeline`, or this one of a pool (0), slept from `begin` until now; 0: off then.
inline void record_park(std::uint64_t timeline, std::uint64_t begin) noexcept {
  if (begin != 0) [[unlikely]]
    record_pause(Kind::park, timeline != 0 ? timeline : track_of_thread(), timeline, 0, begin);
}
/// This thread wakes the worker of `timeline`, or one of a pool (0).
inline void note_wake(std::uint64_t timeline) noexcept {
  if (on()) [[unlikely]]
    record_point(Kind::wake, timeline, 0);
}

}  // namespace trace
}  // namespace heddle::sched
