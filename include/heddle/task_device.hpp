// TaskDevice: a queue of tasks that run in order; submission of tasks, and queries. Every function
// may be called from any thread, tasks included, unless its comment says otherwise.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <optional>
#include <source_location>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "heddle/duration.hpp"
#include "heddle/event.hpp"
#include "heddle/status.hpp"
#include "heddle/task.hpp"
#include "heddle/task_options.hpp"
#include "heddle/task_parts.hpp"

namespace heddle::sched {
class ExternalState;
class DeviceCore;
class Runner;
}  // namespace heddle::sched

#pragma GCC visibility push(default)
namespace heddle {

namespace sched {

/// Tasks by end, and the worker's activity. While a device is idle, submitted = done + failed +
/// skipped + cancelled.
struct Counters {
  std::uint64_t submitted = 0, done = 0, failed = 0, skipped = 0, cancelled = 0;
  std::uint64_t parks = 0, wakes = 0;  ///< times its worker slept for lack of work, and woke
  std::uint64_t spins = 0;  ///< times its worker ran out of work, and got work before it parked
  /// The most tasks outstanding at once; maxima below 16 may have been missed.
  std::uint64_t queue_max = 0;
};

/// The current state of a device, for people and watchdogs (S17).
struct Snapshot {
  std::string device;
  std::uint64_t id = 0;      ///< TaskDevice::id()
  std::uint64_t queued = 0;  ///< tasks that have not ended
  /// of the queued tasks, begun ones, on devices with tasks in flight
  std::uint64_t in_flight = 0;
  std::string running;               ///< label of the running task; empty when none
  std::uint64_t running_ticket = 0;  ///< the first ticket that has not ended; 0 when idle
  /// The running time, at most: a worker reads the clock once for several tasks in a row, so the
  /// tasks right before the running task may be included.
  std::chrono::nanoseconds running_for{0};
  /// The earliest running part of a task in parts: "part 4 of 10, indices [30, 40)"; empty: none.
  std::string part;
  std::string waiting_for;  ///< the event that the device waits for; empty when none
  /// The party that must end that event: "device 'io'", or "the holder of timeline 'sensor'".
  std::string signaller;
  std::chrono::nanoseconds waiting_time{0};
  bool overdue = false;          ///< in a watchdog's report: true if the limit is exceeded
  std::uint64_t recoveries = 0;  ///< times that recover() cleared a failure
  Status status;
  Counters counters;
  [[nodiscard]] std::string to_string() const;
};

/// One in-order timeline of tasks and the threads that run the tasks. A shared handle: the last
/// handle closes the device, after letting accepted tasks end (bounded by drain_max). The last
/// handle never waits inside one of the device's own tasks, in a callback on the thread that would
/// report the ends of the tasks, and after a shutdown() that timed out. A moved-from handle is
/// empty: requests give failed_precondition, its name is "(empty handle)", its numbers are 0.
///
/// A failure counts as seen once status(), await() or an event reported it to a caller, or once it
/// is the cause of a failure elsewhere. A failure that was not seen goes to the log, once, when its
/// device closes or the process exits.
class TaskDevice {
 public:
  using Clock = Event::Clock;

  /// Submits a task that calls `f()`, which returns void or Status; a failed Status or any
  /// exception fails the task. The destructor of `f` must not throw; exceptions from copying or
  /// moving `f` go to the caller, and no task is then submitted. A refused submission returns an
  /// event with the refusal (accepted() is false). Takes no lock, allocates no memory for callables
  /// of up to 48 bytes, and makes a system call only to wake a sleeping worker (S3).
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  Event submit(Label label, F&& f) const {
    return submit_any(label, std::forward<F>(f));
  }
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&>
  Event submit(Label label, F&& f, const SubmitOptions& options) const {
    return submit_any(label, std::forward<F>(f), options);
  }

  /// Submits a task that ends later than it returns: `f(completion)` begins an operation; the task
  /// ends when its Completion says so, or is dropped. Until then `f` is kept, and the device
  /// continues with up to DeviceOptions::in_flight such tasks, which end in ticket order; a task
  /// without a Completion begins when every task before it has ended. When `f` fails, the task has
  /// failed, and ends once the Completion is gone. A task behind a failed task is skipped, even if
  /// the later task has begun. Refused as failed_precondition where `in_flight` is 0.
  template <class F>
    requires(!std::is_invocable_v<std::decay_t<F>&> &&
             std::is_invocable_v<std::decay_t<F>&, Completion>)
  Event submit(Label label, F&& f, const SubmitOptions& options = {}) const {
    return submit_any(label, std::forward<F>(f), options);
  }

  /// Submits a task in parts: `f(from, to)` is called, in ascending order, for ranges [from, to)
  /// that partition [0, count): by the thread that runs the device's tasks and, at the same time,
  /// by other threads of the scheduler (SchedulerOptions::width). `f` is called as const, from
  /// several threads, and returns void or Status. The first failed part fails the task, whose
  /// status names the part; later parts that have not begun are left out, and so is every part not
  /// begun at a stop request. The task ends once the begun parts have ended. A slow thread delays
  /// only the part that it holds.
  ///
  /// A part is inside the task (this_task), and must not wait for events: failed_precondition.
  /// Refused as invalid_argument: a grain of 0, an empty `f`. Allocates no memory for callables of
  /// up to 32 bytes. Parts run one after another in mode manual, and where other parts already
  /// occupy the threads, including tasks in parts that a part submits. In a simulation the seed
  /// decides which of `width` begun parts goes first, and the turns of other devices between parts.
  template <class F>
    requires std::is_invocable_v<std::decay_t<F>&, std::size_t, std::size_t>
  Event submit_parallel(Label label, std::size_t count, F&& f,
                        const ParallelOptions& options = {}) const {
    using Callable = std::decay_t<F>;
    static_assert(std::is_invocable_v<const Callable&, std::size_t, std::size_t>,
                  "heddle: parts run at once and share the callable, which is called as const: a "
                  "mutable lambda would be changed by several threads");
    using Result = std::invoke_result_t<Callable&, std::size_t, std::size_t>;
    static_assert(std::is_void_v<Result> || std::is_convertible_v<Result, Status>,
                  "heddle: a part returns nothing or a heddle::Status, as a task does");
    if (Status why = prepare_parts(label, is_empty(f), options.grain); !why.ok())
      return refuse(std::move(why));
    return submit_any(label,
                      PartsTask<Callable>{std::forward<F>(f), count, options.grain.value_or(0)},
                      options.submit);
  }

  /// An event that is done once every task submitted before has ended, with the status of the last
  /// of these tasks: after a recovery and until the next submission, the status of the earlier
  /// failure.
  [[nodiscard]] Event record() const noexcept;
  /// The device waits for `event` before its next task. A failed event poisons the device, and so
  /// does an event that would wait, through other devices, for this device (failed_precondition).
  /// Done events and the device's own events cost no task (S8).
  Event wait(const Event& event) const noexcept;

  /// Blocks until every task submitted before the call has ended; returns the device's status (S6).
  /// Inside one of the device's own tasks: failed_precondition.
  Status await() const noexcept;
  Status await_for(std::chrono::nanoseconds timeout) const noexcept;
  Status await_until(Clock::time_point deadline) const noexcept;
  [[nodiscard]] bool is_idle() const noexcept;

  /// ok, or the failure that poisoned the device.
  [[nodiscard]] Status status() const noexcept;
  /// After a failure: ends the queued tasks as skipped, and takes new tasks (S11). A failure that
  /// no caller has seen goes to the log. Must not be called from the device's own tasks.
  Status recover() const noexcept;
  /// Ends queued tasks as cancelled; the running task sees its stop token (S12).
  void cancel_pending() const noexcept;
  /// Refuses new work, lets accepted tasks end until the deadline, then cancels; joins the worker
  /// (S13). Returns `deadline` if a running task did not stop in time: the task is left to end by
  /// itself, with its thread and the objects that it uses, and the log reports its end. No call
  /// waits for the task any more: the handles of this device and of its scheduler are released at
  /// once. A failure of the device that no caller has seen by then goes to the log. The call may
  /// take 100 ms beyond the deadline, the time for cancelled tasks to heed their stop token. Inside
  /// one of the device's own tasks, or in a callback on the thread that would report the ends of
  /// the tasks: failed_precondition; even then the device takes no new tasks from then on.
  Status shutdown(std::chrono::nanoseconds timeout) const noexcept;

  [[nodiscard]] const std::string& name() const noexcept;
  /// Identity of its timeline in this process.
  [[nodiscard]] std::uint64_t id() const noexcept;
  [[nodiscard]] Mode mode() const noexcept;
  [[nodiscard]] Counters counters() const noexcept;
  [[nodiscard]] Snapshot snapshot() const;
  friend bool operator==(const TaskDevice& a, const TaskDevice& b) noexcept {
    return a.core_ == b.core_;
  }

 private:
  friend class heddle::sched::DeviceCore;
  struct Handle;
  TaskDevice(std::shared_ptr<DeviceCore> core, Event::Place place) noexcept
      : core_(std::move(core)), place_(place) {}

  /// `options`: SubmitOptions, or nothing.
  template <class F, class... Options>
  Event submit_any(Label label, F&& f, const Options&... options) const {
    using Callable = std::decay_t<F>;
    using Result = typename Called<Callable>::type;
    static_assert(std::is_void_v<Result> || std::is_convertible_v<Result, Status>,
                  "heddle: a task returns nothing or a heddle::Status: any other result, such as a "
                  "bool or a std::error_code, would be taken for success; turn it into a Status");
    static_assert(std::is_nothrow_destructible_v<Callable>,
                  "heddle: a task's destructor must not throw, since nobody could catch it");
    if constexpr (sizeof(Callable) > task_bytes_max || alignof(Callable) > 16 ||
                  !std::is_nothrow_move_constructible_v<Callable>) {
      Boxed<Callable> boxed{
          std::unique_ptr<Callable>(new (std::nothrow) Callable(std::forward<F>(f)))};
      if (!boxed.callable) return refuse_memory(label);
      return submit_from<Boxed<Callable>, Boxed<Callable>>(label, boxed, options...);
    } else if constexpr (std::is_nothrow_constructible_v<Callable, F> &&
                         std::is_object_v<std::remove_reference_t<F>>) {
      return submit_from<Callable, F>(label, f, options...);
    } else {
      // Operations that may throw come first: a place in the queue cannot be returned.
      Callable made(std::forward<F>(f));
      return submit_from<Callable, Callable>(label, made, options...);
    }
  }

  /// Builds the callable where it will run, once there is a place for it. `From` is the type
  /// deduced by submit(): F, or F& for a callable to be copied.
  template <class Callable, class From, class... Options>
  Event submit_from(Label label, std::remove_reference_t<From>& from,
                    const Options&... options) const {
    if constexpr (sizeof...(Options) == 0) {
      if (DeviceCore* const core = core_.get(); core != nullptr) [[likely]] {
        if (const Slot slot = reserve(*core); slot.callable != nullptr) [[likely]] {
          const Event::Place place = place_;  // first: the task may drop this handle
          ::new (slot.callable) Callable(static_cast<From&&>(from));
          publish(*core, slot, label.c_str(), ops<Callable, From>);
          return Event(place, slot.ticket);
        }
      }
    }
    if constexpr (std::is_trivially_copyable_v<Callable>) {
      // The slow path alone stores the callable in memory.
      Callable copy(static_cast<From&&>(from));
      return submit_task(label, ops<Callable, Callable>, std::addressof(copy), options...);
    } else {
      const void* const at = std::addressof(from);
      return submit_task(label, ops<Callable, From>, const_cast<void*>(at), options...);
    }
  }

  template <class Callable>
  struct Boxed {
    std::unique_ptr<Callable> callable;
    decltype(auto) operator()()
      requires std::is_invocable_v<Callable&>
    {
      return (*callable)();
    }
    decltype(auto) operator()(Completion completion)
      requires(!std::is_invocable_v<Callable&>)
    {
      return (*callable)(std::move(completion));
    }
  };

  /// The result type of a task, and whether the task ends later.
  template <class Callable>
  struct Called : std::invoke_result<Callable&, Completion> {
    static constexpr bool later = true;
  };
  template <class Callable>
    requires std::is_invocable_v<Callable&>
  struct Called<Callable> : std::invoke_result<Callable&> {
    static constexpr bool later = false;
  };
  template <class Callable>
  static decltype(auto) call(Callable& f) {
    if constexpr (Called<Callable>::later) {
      return f(Completion::of_running_task());
    } else {
      return f();
    }
  }

  template <class Callable, class From>
  static void construct_callable(void* to, void* from) noexcept {
    ::new (to) Callable(static_cast<From&&>(*static_cast<std::remove_reference_t<From>*>(from)));
  }
  template <class Callable>
  static bool run_callable(void* callable, Status& failure) {
    auto& f = *static_cast<Callable*>(callable);
    if constexpr (std::is_pointer_v<Callable>) {
      if (f == nullptr) {
        failure = Status(ErrorCode::invalid_argument, "what was submitted is a null pointer");
        return false;
      }
    }
    if constexpr (std::is_convertible_v<typename Called<Callable>::type, Status>) {
      failure = call(f);
      if (!failure.ok()) return false;
    } else {
      call(f);
    }
    if constexpr (!Called<Callable>::later) f.~Callable();
    return true;
  }
  template <class Callable>
  static void destroy_callable(void* callable) noexcept {
    static_cast<Callable*>(callable)->~Callable();
  }
  static Status ended_as_reported(void* /*callable*/, Status reported) noexcept { return reported; }
  template <class Callable, class From>
  static constexpr TaskOps ops{&construct_callable<Callable, From>, &run_callable<Callable>,
                               &destroy_callable<Callable>,
                               Called<Callable>::later ? &ended_as_reported : nullptr};

  /// A ticket, and the place where its callable is built; small enough for registers.
  struct Slot {
    void* callable;  ///< null: no ticket
    std::uint64_t ticket;
  };
  // A submission in two short calls, while one thread submits and no check is needed. The caller of
  // the two keeps its registers, and an unused event is never made.
  static Slot reserve(DeviceCore& core) noexcept;
  static void publish(DeviceCore& core, Slot slot, const char* label, const TaskOps& task) noexcept;
  // Every other submission.
  Event submit_task(Label label, const TaskOps& task, void* from) const noexcept;
  Event submit_task(Label label, const TaskOps& task, void* from,
                    const SubmitOptions& options) const noexcept;
  /// The reason why the task cannot run in parts; ok: the helpers for the parts are prepared.
  [[nodiscard]] Status prepare_parts(Label label, bool empty,
                                     const std::optional<std::size_t>& grain) const noexcept;
  static Event refuse(Status why) noexcept;
  static Event refuse_memory(Label label) noexcept;
  static Event refuse_empty() noexcept;

  std::shared_ptr<DeviceCore> core_;  // keeps the Handle; null: empty
  Event::Place place_;                // the place of its events
};

/// A timeline that code outside the scheduler advances (S20): a driver's stream, the host's own
/// I/O. A shared handle: when the last handle is destroyed, tickets that were never signalled end
/// as failed. A moved-from handle is empty: requests are refused as failed_precondition. In a
/// forked child an inherited handle is `unavailable`.
class ExternalTimeline {
 public:
  explicit ExternalTimeline(std::string name);
  /// Reserves the next ticket: its event is done once signal() reaches it.
  Event next() noexcept;
  /// Every ticket up to `ticket` has ended; `status` is the end of `ticket` itself. Tickets that
  /// were never handed out, or have ended, are invalid_argument.
  Status signal(std::uint64_t ticket, Status status = {}) noexcept;
  [[nodiscard]] const std::string& name() const noexcept;

 private:
  std::shared_ptr<ExternalState> state_;
};

}  // namespace sched

}  // namespace heddle
#pragma GCC visibility pop
