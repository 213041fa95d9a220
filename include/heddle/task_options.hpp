// Options of devices, and of submissions of tasks. Plain data.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <source_location>
#include <string>
#include <vector>

#include "heddle/duration.hpp"
#include "heddle/event.hpp"

#pragma GCC visibility push(default)
namespace heddle::sched {

/// The most tasks that a queue may hold: some 100 MB, allocated when the queue first reaches that
/// length.
inline constexpr std::uint32_t queue_size_max = std::uint32_t{1} << 20;

/// The behaviour of a submission to a full queue (S4).
enum class FullPolicy : std::uint8_t {
  block,     ///< until a slot is free
  fail,      ///< refuse with `exhausted`
  deadline,  ///< block until SubmitOptions::deadline, then refuse with `deadline`
};

/// Where tasks run (S15).
enum class Mode : std::uint8_t {
  threaded,  ///< one named worker thread per device
  /// On the submitting thread, in ticket order; a waiting task continues where its wait ends. A
  /// task nested within 64 tasks begins when the outer tasks have ended, or the thread waits.
  inline_,
  pooled,     ///< many devices on the scheduler's few workers; a waiting device costs no thread
  manual,     ///< where the host calls the scheduler's poll() or run_one()
  simulated,  ///< by a simulation, whose scheduler opens such devices (heddle/simulation.hpp)
};

struct DeviceOptions {
  std::string name = "device";
  Mode mode = Mode::threaded;
  /// The most outstanding tasks, rounded up to a power of two; unset: 4096.
  std::optional<std::uint32_t> queue_size{};
  FullPolicy full = FullPolicy::block;
  /// The time that an idle worker spins before it parks; unset: the profile's time.
  std::optional<std::chrono::nanoseconds> spin{};
  /// Failures name the file and line that submitted the task (S10), for some 100 ns per task.
  bool record_sites = false;
  /// The most tasks that may have returned and not ended yet: tasks that take a Completion (S23).
  /// 0: every task ends as it returns, and tasks that take a Completion are refused.
  std::uint32_t in_flight = 0;
  bool single_producer = false;  ///< a second submitting thread is refused (failed_precondition)
  /// The processor that the device's worker thread is bound to (S19); modes without a worker thread
  /// only check that the process may use the processor.
  std::optional<unsigned> processor{};
  /// How long a destructor lets accepted tasks run before it cancels them.
  std::chrono::nanoseconds drain_max = std::chrono::seconds(60);
};

struct SubmitOptions {
  std::optional<FullPolicy> full{};
  Event::Clock::time_point deadline{};
  /// A failure of this task ends only this task and the tasks that list its event; the device
  /// continues (S10).
  bool contain = false;
  /// With `contain`: the event ends with the unchanged Status that the task returned or threw,
  /// rather than with a `device_failed` that names device and task; `cancelled` is no failure.
  bool own_status = false;
  /// The task starts after these events, awaited in list order. The task is skipped if one of the
  /// events failed, or would wait for the task; the skip then comes at once, while later events may
  /// still be pending. The device continues (S8).
  std::vector<Event> after{};
  /// The place named by a device that records sites; unset: the place where the label was written.
  std::optional<std::source_location> site{};
};

/// How the range of a task in parts is cut, and the options of the task's submission.
struct ParallelOptions {
  /// Indices of every part but the last, 1 or more: the parts then depend on `grain` and on the
  /// range alone. Unset: the range is cut evenly, into some parts per thread of
  /// SchedulerOptions::width.
  std::optional<std::size_t> grain{};
  SubmitOptions submit{};
};

}  // namespace heddle::sched
#pragma GCC visibility pop
