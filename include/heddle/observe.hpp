// Logging (one hook and one level per process) and tracing. Thread-safe; several threads may call
// the hook at once. Snapshots, counters and the watchdog belong to the scheduler
// (heddle/scheduler.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/duration.hpp"
#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

enum class LogLevel : std::uint8_t { off, error, warn, info, debug, trace };

/// Receives a complete message, without a newline at the end; a message with causes or snapshots
/// has several lines. A hook must not call set_log_level() or set_log_hook().
using LogHook = std::function<void(LogLevel level, std::string_view text)>;

/// Drops messages above `level` before they are formatted; an invalid number counts as trace. A
/// call, at any time, overrides HEDDLE_LOG, which is then ignored. Without a call, HEDDLE_LOG is
/// read before the first message, and whenever a Scheduler or a Backend is opened, which throws
/// Error(invalid_argument) for a malformed value. If a message comes first, a malformed value is
/// logged as an error, and the level is warn, the default.
void set_log_level(LogLevel level) noexcept;
[[nodiscard]] LogLevel log_level() noexcept;
/// Replaces the sink; an empty hook restores the default, stderr (never stdout). When the call
/// returns, another thread may still be running the replaced hook: objects used by a hook must live
/// as long as copies of the hook.
void set_log_hook(LogHook hook);
/// Passes a line to the hook if `level` is enabled. Never throws: an exception of the hook is
/// dropped.
void log(LogLevel level, std::string_view text) noexcept;

struct TraceOptions {
  /// Events kept for each thread, rounded up to a power of two; later events are dropped and
  /// counted. An event takes 48 bytes; a thread touches the whole buffer at its first event.
  std::size_t events_max = std::size_t{1} << 16;
  /// true: also records submits: the time and track of each submit. A submit then costs some 40 ns
  /// more.
  bool submits = false;
};

/// An action of a thread, beginning at `begin` and taking `duration`, both since the start of the
/// trace.
struct TraceEvent {
  enum class Kind : std::uint8_t {
    task,       ///< task `ticket` of device `device`, named `label`, with the outcome `end`
    wait,       ///< a wait for `ticket` of `device` to end
    park,       ///< the worker of `device`, or a worker of a pool (0), slept without work
    callbacks,  ///< the callbacks of events that ended with `ticket`
    submit,     ///< `ticket` was submitted to `device`
    wake,       ///< the parked worker of `device`, or a worker of a pool (0), was woken
  };
  enum class End : std::uint8_t { done, failed, skipped, cancelled };

  Kind kind = Kind::task;
  End end = End::done;
  /// The actor: a device (sched::TaskDevice::id()) or, outside tasks, a thread.
  std::uint64_t track = 0;
  std::uint64_t device = 0;  ///< Event::device_id()
  std::uint64_t ticket = 0;
  const char* label = "";
  std::chrono::nanoseconds begin{0}, duration{0};
};

/// The events recorded between start_trace() and stop_trace(): a value.
class Trace {
 public:
  /// Ordered by `begin`; an event that contains others precedes them. Two events of one track are
  /// either nested or disjoint.
  std::vector<TraceEvent> events;
  /// Names of devices and threads, by TraceEvent::track and ::device.
  std::map<std::uint64_t, std::string> names;
  /// The number of events lost because their thread's buffer was full.
  std::uint64_t dropped = 0;

  [[nodiscard]] static bool is_thread(std::uint64_t track) noexcept {
    return (track & thread_bit) != 0;
  }
  /// "?" for a device that was closed before any of its events was recorded.
  [[nodiscard]] const std::string& name_of(std::uint64_t track) const noexcept;

  /// Chrome's trace event format, which Perfetto (ui.perfetto.dev) and chrome://tracing open:
  /// devices and threads are tracks, submits are arrows to their tasks.
  void write_chrome_json(std::ostream& out) const;
  /// Throws Error(unavailable) when the file cannot be written.
  void write_chrome_json(const std::string& path) const;

  /// Marks tracks of threads; the remaining bits are the kernel's thread number.
  static constexpr std::uint64_t thread_bit = std::uint64_t{1} << 63;
};

/// Starts to record what devices do, in every scheduler of the process, at a cost of some 15 ns per
/// task. A device that is running many tasks may start recording up to 256 tasks later. Throws
/// Error: failed_precondition if a trace is being recorded already, invalid_argument for events_max
/// 0 or above 2^24.
void start_trace(const TraceOptions& options = {});
/// Ends the recording. The trace contains every event that ended before the call; a task that is
/// still running is not included. Throws Error(failed_precondition) if no trace is being recorded.
[[nodiscard]] Trace stop_trace();

}  // namespace heddle
#pragma GCC visibility pop
