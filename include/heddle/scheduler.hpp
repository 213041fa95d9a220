// The scheduler, usable alone: devices that run tasks in order, events, waits. No tensor, no JIT.
// Every function may be called from any thread, tasks included, unless it says otherwise.
#pragma once

#include <chrono>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/any_task.hpp"
#include "heddle/event.hpp"
#include "heddle/profile.hpp"
#include "heddle/status.hpp"
#include "heddle/task_device.hpp"

namespace heddle::sched {
struct SchedulerCore;
class Helpers;
class Opening;
class Runner;
}  // namespace heddle::sched

#pragma GCC visibility push(default)
namespace heddle {

namespace sched {
/// The most workers that a pool may have: one for each processor of the largest machines, and 16
/// that block for each of a common one. The system has some 32,000 threads for all its processes.
inline constexpr unsigned workers_max = 4096;
/// The most threads that run the parts of one task.
inline constexpr unsigned width_max = 64;
}  // namespace sched

struct SchedulerOptions {
  std::string name = "heddle";
  sched::DeviceOptions device{};  ///< defaults for new devices
  SchedulerProfile profile{};     ///< constants of the machine
  /// Threads for all pooled devices together, 1 to workers_max; unset: available_processors(). They
  /// start with the first such device, and spin as long as `device.spin` says. Where the system has
  /// fewer, those that started do the work, and the log says so.
  std::optional<unsigned> workers{};
  /// Binds each to a processor of the affinity mask, in turn, and so the threads that help with
  /// parts, from the second processor on.
  bool pin_workers = false;
  /// Threads that run the parts of one task at once (TaskDevice::submit_parallel()), that of its
  /// device among them: 1 to as many as the process may use, which is what unset means. The others
  /// help all devices, one task at a time, with kernels too where a backend's devices are among
  /// them (BackendOptions::scheduler): workers of the pool where there is one, when they have
  /// nothing else to do; else threads that start with the first such task, and spin as workers do.
  /// Where the system has none, the log says so, and the device's own runs all parts.
  std::optional<unsigned> width{};
  /// Lets `width` be more than there are, up to width_max: for tests.
  bool oversubscribed = false;
  /// A task that has not ended after this, a part of one, or a wait of a device, is reported once:
  /// as a warning in the log, with snapshots of all devices, by a thread that looks some times
  /// within the limit. Unset: no such thread.
  std::optional<std::chrono::nanoseconds> watchdog{};
  /// Called with these snapshots, `overdue` set in some, on the watchdog's thread.
  std::function<void(const std::vector<sched::Snapshot>&)> on_overdue{};
};

/// Makes devices, shuts them down together, and runs those that are manual. Devices outlive it. A
/// scheduler inherited by a forked child is `unavailable` there, and runs nothing. A shared handle;
/// one that was moved from is empty: its functions give failed_precondition, as a Status or an
/// Error.
class Scheduler {
 public:
  /// Throws Error(invalid_argument) for 0 workers or more than workers_max, for a width of 0 or
  /// more than there are, for a watchdog's limit that is not positive, for a profile whose spin is
  /// negative, and for a malformed HEDDLE_LOG (see set_log_level()).
  explicit Scheduler(SchedulerOptions options = {});
  /// Throws Error: unavailable when no thread can be started or after shutdown(), invalid_argument
  /// for a queue_size of 0 or above queue_size_max, more than that in flight, a negative spin, a
  /// mode or policy that is none, or a processor that this process may not use.
  template <class Name>
    requires std::convertible_to<Name, std::string>
  [[nodiscard]] sched::TaskDevice new_device(Name&& name) {
    return new_named_device(std::forward<Name>(name));
  }
  [[nodiscard]] sched::TaskDevice new_device(sched::DeviceOptions options);

  /// Submits a task that comes after no other one but those that it lists: it runs on whichever
  /// thread is free first, of the workers of pooled devices, which start with it, or, where
  /// `device.mode` is manual, inline_ or simulated, of those that run such devices. Its failure is
  /// its own (SubmitOptions::contain). Refused, as a submission to a device: an empty `f` as
  /// invalid_argument, after shutdown() as unavailable. A lock is taken for a moment; no memory for
  /// callables of up to 32 bytes once as many were outstanding before. Beyond 1024 outstanding
  /// tasks, one may come after another one of them. The scheduler's last handle waits for them, as
  /// that of a device does.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  Event submit_any(sched::Label label, F&& f, const sched::SubmitOptions& options = {}) {
    sched::AnyGrant grant = grant_any(label, sched::is_empty(f));
    if (!grant.device) return grant.refused;
    sched::SubmitOptions contained = options;
    contained.contain = true;
    return grant.device->submit(
        label, sched::AnyTask<std::decay_t<F>>{std::move(grant.lease), std::forward<F>(f)},
        contained);
  }

  // Manual devices run in the next two functions, and where a thread that runs no task waits for
  // one of their events. A turn ends up to 256 tasks of one device. Several threads may share the
  // work.

  /// Gives turns to manual devices until none is ready, or `budget` is over; whether any task went
  /// on or ended.
  bool poll(std::chrono::nanoseconds budget = std::chrono::nanoseconds::max());
  /// Gives one device a turn of one task, and waits up to `budget` for one to be ready, though it
  /// be opened meanwhile; whether the task went on or ended.
  bool run_one(std::chrono::nanoseconds budget = std::chrono::nanoseconds(0));
  /// A descriptor that is readable while a manual device is ready, for the host's event loop;
  /// running what was ready makes it unreadable. The scheduler's own: not to be closed. Throws
  /// Error(exhausted) where there is none.
  [[nodiscard]] int descriptor();

  /// TaskDevice::shutdown() of all its devices, within one deadline and one grace; the first
  /// failure is returned, all are tried. Inside a task of one of them: failed_precondition for that
  /// one, and neither it nor the scheduler takes anything new from then on all the same.
  Status shutdown(std::chrono::nanoseconds timeout);
  [[nodiscard]] std::vector<sched::Snapshot> snapshot() const;
  /// Whether it is a Simulation's: then its devices are simulated, whatever mode they ask for.
  [[nodiscard]] bool simulated() const;

 private:
  friend class Simulation;
  friend class sched::Opening;
  Scheduler(SchedulerOptions options, std::shared_ptr<sched::Runner> simulator);
  [[nodiscard]] sched::SchedulerCore& core() const;
  [[nodiscard]] sched::TaskDevice new_named_device(std::string name);
  /// `helpers`: null, or those that help it instead of the scheduler's.
  [[nodiscard]] sched::TaskDevice open(sched::DeviceOptions options, bool any,
                                       std::shared_ptr<sched::Helpers> helpers = {});
  [[nodiscard]] sched::AnyGrant grant_any(sched::Label label, bool empty);

  std::shared_ptr<sched::SchedulerCore> core_;
};

/// About the task that runs on the calling thread; outside tasks: empty.
namespace this_task {
/// Waits inside a task; cancelled when the task is asked to stop. On a device without a thread of
/// its own the task is suspended: whoever runs it goes on, and the task may go on in another
/// thread, so it must not hold a mutex meanwhile. An event that can only end after this task:
/// failed_precondition; no memory to be suspended: exhausted (S16).
Status await(const Event& event) noexcept;
[[nodiscard]] std::stop_token stop_token() noexcept;
[[nodiscard]] const char* label() noexcept;
[[nodiscard]] std::uint64_t ticket() noexcept;
[[nodiscard]] bool running() noexcept;
}  // namespace this_task

/// Processors this process may use: the affinity mask, bounded by the cgroup CPU quota (v1 and v2,
/// nested groups too), of which a part of a processor counts as one; at least 1 (S19).
[[nodiscard]] unsigned available_processors() noexcept;

}  // namespace heddle
#pragma GCC visibility pop
