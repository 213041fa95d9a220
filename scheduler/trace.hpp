// Trace: what threads note down for a trace, each in a ring of its own (heddle/observe.hpp has what
// becomes of it). While off, on() is all that is called. Any thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "heddle/observe.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/atomic.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// A bounded ring between one writer and one reader. It overwrites nothing: what finds it full is
/// dropped, and counted.
template <class Record, class Env = StdEnv>
class TraceRing {
 public:
  /// `capacity` is a power of two.
  explicit TraceRing(std::size_t capacity)
      : capacity_(capacity), records_(std::make_unique<Record[]>(capacity)) {}

  /// The writer.
  void write(const Record& record) noexcept {
    // relaxed: the writer's own.
    const std::uint64_t at = written_.load(std::memory_order_relaxed);
    if (at - seen_read_ >= capacity_) [[unlikely]] {
      // acquire: pairs with the release in read(): the reader has copied what is overwritten.
      seen_read_ = read_.load(std::memory_order_acquire);
      if (at - seen_read_ >= capacity_) {
        // relaxed: one writer; pairs with the load in dropped(), and orders nothing.
        dropped_.store(dropped_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
        return;
      }
    }
    records_[static_cast<std::size_t>(at) & (capacity_ - 1)] = record;
    // release: pairs with the acquire in read().
    written_.store(at + 1, std::memory_order_release);
  }

  /// Calls take(record) for each record that is there, oldest first. The reader.
  template <class Take>
  void read(const Take& take) {
    // relaxed: the reader's own.
    std::uint64_t at = read_.load(std::memory_order_relaxed);
    // acquire: pairs with the release in write().
    for (const std::uint64_t end = written_.load(std::memory_order_acquire); at != end; ++at) {
      take(records_[static_cast<std::size_t>(at) & (capacity_ - 1)]);
      // release: pairs with the acquire in write().
      read_.store(at + 1, std::memory_order_release);
    }
  }

  /// Any thread.
  [[nodiscard]] std::uint64_t dropped() const noexcept {
    // relaxed: see write().
    return dropped_.load(std::memory_order_relaxed);
  }

 private:
  const std::size_t capacity_;
  const std::unique_ptr<Record[]> records_;
  // The writer's line.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> written_{0};
  std::uint64_t seen_read_ = 0;
  typename Env::template atomic<std::uint64_t> dropped_{0};
  // The reader's.
  alignas(tuning::line_bytes) typename Env::template atomic<std::uint64_t> read_{0};
};

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

[[nodiscard]] inline bool on() noexcept {
  // acquire: pairs with the release in start_trace(): the clock is chosen.
  return session.load(std::memory_order_acquire) != 0;
}

/// Now, in ticks of the trace's clock; not 0.
[[nodiscard]] std::uint64_t stamp() noexcept;
/// The same, or 0 while off.
[[nodiscard]] inline std::uint64_t stamp_if_on() noexcept { return on() ? stamp() : 0; }

[[nodiscard]] inline std::uint32_t session_now() noexcept {
  // relaxed: a number to tell traces apart.
  return session.load(std::memory_order_relaxed);
}

/// Notes something down. `begin` 0: it began before the trace did.
void record(const Record& record) noexcept;
/// Names a timeline in the trace.
void name(std::uint64_t timeline, const std::string& name) noexcept;
[[nodiscard]] std::uint64_t track_of_thread() noexcept;
/// What the calling thread does belongs to this track: its innermost task's device, or itself.
[[nodiscard]] std::uint64_t track_here() noexcept;

/// Device `timeline` slept, was woken, called back ...: from `begin` until now.
void record_pause(Kind kind, std::uint64_t track, std::uint64_t timeline, std::uint64_t ticket,
                  std::uint64_t begin) noexcept;
/// `ticket` is about to be published by this thread.
void record_submit(std::uint64_t timeline, std::uint64_t ticket) noexcept;
/// The worker of `timeline`, or this one of a pool (0), slept from `begin` until now; 0: off then.
inline void record_park(std::uint64_t timeline, std::uint64_t begin) noexcept {
  if (begin != 0) [[unlikely]]
    record_pause(Kind::park, timeline != 0 ? timeline : track_of_thread(), timeline, 0, begin);
}
/// This thread wakes the worker of `timeline`, or one of a pool (0).
inline void note_wake(std::uint64_t timeline) noexcept {
  if (on()) [[unlikely]]
    record_pause(Kind::wake, track_here(), timeline, 0, stamp());
}

/// The thread or device of `track` waited for `event` from `begin` until now; 0: off then.
void record_wait(const Event& event, std::uint64_t track, std::uint64_t begin) noexcept;

/// This thread or its task waits for `event`, which lives longer, while this lives.
class WaitScope {
 public:
  explicit WaitScope(const Event& event) noexcept : event_(event), begin_(stamp_if_on()) {}
  ~WaitScope() {
    if (begin_ != 0) [[unlikely]]
      record_wait(event_, track_here(), begin_);
  }
  WaitScope(const WaitScope&) = delete;
  WaitScope& operator=(const WaitScope&) = delete;

 private:
  const Event& event_;
  const std::uint64_t begin_;
};

}  // namespace trace
}  // namespace heddle::sched
