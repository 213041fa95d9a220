// What devices are made with, and how tasks are submitted. Plain data.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "heddle/event.hpp"

#pragma GCC visibility push(default)
namespace heddle::sched {

/// The most tasks that a queue may hold: some 100 MB, which it takes as it first gets that long.
inline constexpr std::uint32_t queue_size_max = std::uint32_t{1} << 20;

/// What a submit does when the queue is full (S4).
enum class FullPolicy : std::uint8_t {
  block,     ///< until one slot frees
  fail,      ///< refuse with `exhausted`
  deadline,  ///< block until SubmitOptions::deadline, then refuse with `deadline`
};

/// Where tasks run (S15).
enum class Mode : std::uint8_t {
  threaded,  ///< one named worker thread per device
  /// On the submitting thread, in ticket order; what waits goes on where that ends. Within 64 other
  /// tasks, a task begins when these have ended, or their thread waits.
  inline_,
  pooled,     ///< many devices on the scheduler's few workers; a device that waits costs no thread
  manual,     ///< where the host calls the scheduler's poll() or run_one()
  simulated,  ///< by a simulation, whose scheduler opens them (heddle/simulation.hpp)
};

struct DeviceOptions {
  std::string name = "device";
  Mode mode = Mode::threaded;
  /// Tasks outstanding at most, rounded up to a power of two; unset: 4096.
  std::optional<std::uint32_t> queue_size{};
  FullPolicy full = FullPolicy::block;
  /// The time that an idle worker spins before it parks; unset: the profile's.
  std::optional<std::chrono::nanoseconds> spin{};
  /// Failures name the file and line that submitted the task (S10), for some 100 ns per task.
  bool record_sites = false;
  /// The most tasks that may have returned and not ended yet: those that take a Completion (S23).
  /// 0: every task ends as it returns, and those that take a Completion are refused.
  std::uint32_t in_flight = 0;
  bool single_producer = false;  ///< a second submitting thread is refused (failed_precondition)
  /// The processor that the device's worker thread is bound to (S19); modes in which it has none
  /// only check that the process may use it.
  std::optional<unsigned> processor{};
  /// How long a destructor lets accepted tasks run before it cancels them.
  std::chrono::nanoseconds drain_max = std::chrono::seconds(60);
};

struct SubmitOptions {
  std::optional<FullPolicy> full{};
  Event::Clock::time_point deadline{};
  /// The failure of this task ends it and the tasks that list its event; the device goes on (S10).
  bool contain = false;
  /// With `contain`: the event ends with the Status that the task returned or threw, as it is,
  /// rather than with a `device_failed` that names device and task; `cancelled` is no failure.
  bool own_status = false;
  /// The task starts after these, which are waited for one after the other; it is skipped when one
  /// of them failed, or would wait for it: then at once, while those that follow may still run. The
  /// device goes on (S8).
  std::vector<Event> after{};
  /// The place that a device which records sites names; unset: where the label was written.
  std::optional<std::source_location> site{};
};

/// How the range of a task in parts is cut, and how that task is submitted.
struct ParallelOptions {
  /// Indices of each part but the last, 1 or more: then the parts depend on this and on the range
  /// alone. Unset: the range is cut evenly, in some parts for each of SchedulerOptions::width.
  std::optional<std::size_t> grain{};
  SubmitOptions submit{};
};

}  // namespace heddle::sched
#pragma GCC visibility pop
