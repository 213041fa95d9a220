// The scheduler, usable alone: devices that run tasks in order, events, waits. No tensor, no JIT.
// Every function may be called from any thread, tasks included, unless it says otherwise.
#pragma once

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
#include "heddle/duration.hpp"
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
/// The most workers of a pool: one worker per processor of the largest machines, and 16 blocking
/// workers per processor of a common machine. A system has some 32,000 threads for its processes
/// together.
inline constexpr unsigned workers_max = 4096;
/// The most threads that run the parts of one task.
inline constexpr unsigned width_max = 64;
}  // namespace sched

struct SchedulerOptions {
  std::string name = "heddle";
  sched::DeviceOptions device{};  ///< defaults for new devices
  SchedulerProfile profile{};     ///< constants of the machine
  /// Threads for the pooled devices together, 1 to workers_max; unset: available_processors(). The
  /// threads start with the first pooled device, and spin for `device.spin`. If the system provides
  /// fewer threads, the started threads do the work, and the log says so.
  std::optional<unsigned> workers{};
  /// Binds each worker to a processor of the affinity mask, in turn; also binds the threads that
  /// help with parts, from the second processor on.
  bool pin_workers = false;
  /// Threads that run the parts of one task at once (TaskDevice::submit_parallel()), including the
  /// device's thread: 1 to the number of processors that the process may use, the value if unset.
  /// The other threads help every device, one task at a time, also with kernels if a backend's
  /// devices are among the devices (BackendOptions::scheduler). The helpers are idle workers of the
  /// pool if there is a pool; otherwise threads that start with the first task in parts, and spin
  /// as workers do. If the system provides no thread, the log says so, and the device's thread runs
  /// every part.
  std::optional<unsigned> width{};
  /// Allows `width` to exceed the number of processors, up to width_max: for tests.
  bool oversubscribed = false;
  /// A task, a part, or a device's wait that has not ended after this time is reported once, as a
  /// warning in the log with snapshots of every device. A thread checks several times within the
  /// limit. Unset: no watchdog thread.
  std::optional<std::chrono::nanoseconds> watchdog{};
  /// Called with the snapshots of a report, some with `overdue` set, on the watchdog's thread.
  std::function<void(const std::vector<sched::Snapshot>&)> on_overdue{};
};

/// Makes devices, shuts them down together, and runs manual devices. Devices outlive their
/// scheduler. In a forked child an inherited scheduler is `unavailable`, and runs no task. A shared
/// handle; a moved-from handle is empty: its functions give failed_precondition, as a Status or an
/// Error.
class Scheduler {
 public:
  /// Throws Error(invalid_argument) for 0 workers or more than workers_max, for a width of 0 or
  /// above the number of processors, for a watchdog limit that is not positive, for a profile with
  /// a negative spin, and for a malformed HEDDLE_LOG (see set_log_level()).
  explicit Scheduler(SchedulerOptions options = {});
  /// Throws Error: unavailable if no thread can be started or after shutdown(); invalid_argument
  /// for a queue_size of 0 or above queue_size_max, an in_flight above queue_size_max, a negative
  /// spin, an invalid mode or policy, or a processor that this process may not use.
  template <class Name>
    requires std::convertible_to<Name, std::string>
  [[nodiscard]] sched::TaskDevice new_device(Name&& name) {
    return new_named_device(std::forward<Name>(name));
  }
  [[nodiscard]] sched::TaskDevice new_device(sched::DeviceOptions options);

  /// Submits a task that comes after no other task except the listed ones. The task runs on the
  /// first free thread among the workers of pooled devices, which start with the task; or, if
  /// `device.mode` is manual, inline_ or simulated, among the threads that run such devices. A
  /// failure affects only the task itself (SubmitOptions::contain). Refused, as a submission to a
  /// device: an empty `f` as invalid_argument, after shutdown() as unavailable. Briefly takes a
  /// lock; allocates no memory for callables of up to 32 bytes once as many tasks were outstanding
  /// before. Beyond 1024 outstanding tasks, a task may come after another of these tasks. The
  /// scheduler's last handle waits for these tasks, as a device's last handle does.
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

  // Manual devices run in the next two functions, and where a thread that runs no task waits for an
  // event of a manual device. A turn ends up to 256 tasks of one device. Several threads may share
  // the work.

  /// Gives turns to manual devices until none is ready, or `budget` is over. Returns whether any
  /// task continued or ended.
  bool poll(std::chrono::nanoseconds budget = std::chrono::nanoseconds::max());
  /// Gives one device a turn of one task, after waiting up to `budget` for a device to be ready,
  /// including devices opened meanwhile. Returns whether the task continued or ended.
  bool run_one(std::chrono::nanoseconds budget = std::chrono::nanoseconds(0));
  /// A descriptor that is readable while a manual device is ready, for the host's event loop;
  /// running the ready tasks makes it unreadable. Owned by the scheduler: must not be closed.
  /// Throws Error(exhausted) if no descriptor is available.
  [[nodiscard]] int descriptor();

  /// TaskDevice::shutdown() of every device, within one deadline and one grace. Tries every device,
  /// and returns the first failure. Inside a task of one of the devices: failed_precondition for
  /// that device; even then neither the device nor the scheduler takes new work from then on.
  Status shutdown(std::chrono::nanoseconds timeout);
  [[nodiscard]] std::vector<sched::Snapshot> snapshot() const;
  /// Whether a Simulation owns the scheduler: its devices are then simulated, in any requested
  /// mode.
  [[nodiscard]] bool simulated() const;

 private:
  friend class Simulation;
  friend class sched::Opening;
  Scheduler(SchedulerOptions options, std::shared_ptr<sched::Runner> simulator);
  [[nodiscard]] sched::SchedulerCore& core() const;
  [[nodiscard]] sched::TaskDevice new_named_device(std::string name);
  /// `helpers`: null, or the helpers of the device in place of the scheduler's helpers.
  [[nodiscard]] sched::TaskDevice open(sched::DeviceOptions options, bool any,
                                       std::shared_ptr<sched::Helpers> helpers = {});
  [[nodiscard]] sched::AnyGrant grant_any(sched::Label label, bool empty);

  std::shared_ptr<sched::SchedulerCore> core_;
};

/// About the task that runs on the calling thread; empty values outside tasks.
namespace this_task {
/// Waits inside a task; cancelled if the task is asked to stop. On a device without a thread of its
/// own the task is suspended: the thread continues with other work, and the task may resume on
/// another thread, so the task must not hold a mutex meanwhile. An event that can only end after
/// this task: failed_precondition; no memory to suspend the task: exhausted (S16).
Status await(const Event& event) noexcept;
[[nodiscard]] std::stop_token stop_token() noexcept;
[[nodiscard]] const char* label() noexcept;
[[nodiscard]] std::uint64_t ticket() noexcept;
[[nodiscard]] bool running() noexcept;
}  // namespace this_task

/// The number of processors that this process may use: the affinity mask, bounded by the cgroup CPU
/// quota (v1 and v2, nested groups too), where a fraction of a processor counts as one; at least 1
/// (S19).
[[nodiscard]] unsigned available_processors() noexcept;

}  // namespace heddle
#pragma GCC visibility pop
