// Seeing what heddle does: logging (one hook and one level for the process) and tracing. Any
// thread; the hook may be called from several at once. Snapshots, counters and the watchdog are the
// scheduler's (heddle/scheduler.hpp).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

enum class LogLevel : std::uint8_t { off, error, warn, info, debug, trace };

/// Receives a finished message, without a newline at its end; one that tells causes or snapshots
/// has several lines. A hook must not call set_log_level() or set_log_hook().
using LogHook = std::function<void(LogLevel level, std::string_view text)>;

/// Drops messages above `level` before they are built; a number that is no level counts as trace. A
/// program that calls this, at any time, overrides HEDDLE_LOG, which is then not looked at. In
/// other programs HEDDLE_LOG is read before the first message, and again whenever a Scheduler or a
/// Backend is opened, which throw Error(invalid_argument) when it is malformed. Where a message
/// comes first, a malformed value is logged as an error, and the level is warn, as without the
/// variable.
void set_log_level(LogLevel level) noexcept;
[[nodiscard]] LogLevel log_level() noexcept;
/// Replaces the sink; an empty hook restores the default, stderr. Never stdout. Another thread may
/// still be in the hook that is replaced when this returns: what a hook uses must live as long as
/// its copies do.
void set_log_hook(LogHook hook);
/// Sends a line to the hook when `level` is on. Never throws: what a hook throws is dropped.
void log(LogLevel level, std::string_view text) noexcept;

struct TraceOptions {
  /// Events that are kept for each thread, rounded up to a power of two; later ones are dropped and
  /// counted. An event takes 48 bytes; a thread touches all of them at its first event.
  std::size_t events_max = std::size_t{1} << 16;
  /// Whether submits are recorded too: when each task was submitted, and on which track. They then
  /// cost some 40 ns more.
  bool submits = false;
};

/// Something that a thread did, from `begin` on for `duration`, both since the trace was started.
struct TraceEvent {
  enum class Kind : std::uint8_t {
    task,       ///< number `ticket` of device `device`, named `label`, which ended as `end`
    wait,       ///< until `ticket` of `device` had ended
    park,       ///< the worker of `device`, or one of a pool (0), slept for want of work
    callbacks,  ///< those of events that ended with `ticket`
    submit,     ///< `ticket` was submitted to `device`
    wake,       ///< the parked worker of `device` was woken, or one of a pool (0)
  };
  enum class End : std::uint8_t { done, failed, skipped, cancelled };

  Kind kind = Kind::task;
  End end = End::done;
  /// What did it: a device (sched::TaskDevice::id()) or, outside tasks, a thread.
  std::uint64_t track = 0;
  std::uint64_t device = 0;  ///< Event::device_id()
  std::uint64_t ticket = 0;
  const char* label = "";
  std::chrono::nanoseconds begin{0}, duration{0};
};

/// What was recorded between start_trace() and stop_trace(): a value.
class Trace {
 public:
  /// Ordered by `begin`; one that contains others comes before them. Events of one track either
  /// contain one another or do not overlap.
  std::vector<TraceEvent> events;
  /// Names of devices and threads, by TraceEvent::track and ::device.
  std::map<std::uint64_t, std::string> names;
  /// Events that found their thread's buffer full.
  std::uint64_t dropped = 0;

  [[nodiscard]] static bool is_thread(std::uint64_t track) noexcept {
    return (track & thread_bit) != 0;
  }
  /// "?" for a device that was closed before anything was recorded of it.
  [[nodiscard]] const std::string& name_of(std::uint64_t track) const noexcept;

  /// Chrome's trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open:
  /// devices and threads are tracks, submits are arrows to their tasks.
  void write_chrome_json(std::ostream& out) const;
  /// Throws Error(unavailable) when the file cannot be written.
  void write_chrome_json(const std::string& path) const;

  /// Marks tracks of threads; the rest is the kernel's number of the thread.
  static constexpr std::uint64_t thread_bit = std::uint64_t{1} << 63;
};

/// Begins to record what devices do, in all schedulers of the process, at some 15 ns a task. A
/// device in the middle of many tasks may begin up to 256 tasks later. Throws Error:
/// failed_precondition when a trace is being recorded already, invalid_argument for events_max 0 or
/// above 2^24.
void start_trace(const TraceOptions& options = {});
/// Ends the recording. Everything that ended before the call is in it; a task that still runs is
/// not. Throws Error(failed_precondition) when none is being recorded.
[[nodiscard]] Trace stop_trace();

}  // namespace heddle
#pragma GCC visibility pop
