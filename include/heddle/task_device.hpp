// TaskDevice: a queue of tasks that run in order; how tasks are submitted to it, and what can be
// asked of it. Every function may be called from any thread, tasks included, unless it says
// otherwise.
#pragma once

#include <chrono>
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

/// Tasks by how they ended, and what the worker did. While a device is idle, submitted = done +
/// failed + skipped + cancelled.
struct Counters {
  std::uint64_t submitted = 0, done = 0, failed = 0, skipped = 0, cancelled = 0;
  std::uint64_t parks = 0, wakes = 0;  ///< times its worker slept for want of work, and woke
  std::uint64_t spins = 0;  ///< times its worker ran out of work, and got some before it parked
  /// The most tasks that were outstanding at once; maxima below 16 may have passed unseen.
  std::uint64_t queue_max = 0;
};

/// What a device is at, for people and watchdogs (S17).
struct Snapshot {
  std::string device;
  std::uint64_t id = 0;              ///< TaskDevice::id()
  std::uint64_t queued = 0;          ///< tasks that have not ended
  std::uint64_t in_flight = 0;       ///< those of them that began, on devices with tasks in flight
  std::string running;               ///< label of the running task; empty when none
  std::uint64_t running_ticket = 0;  ///< the first that has not ended; 0 when idle
  /// The time that it has run, at most: a worker reads the clock once for several tasks in a row,
  /// so those right before it may count in.
  std::chrono::nanoseconds running_for{0};
  /// Of a task in parts the earliest that runs: "part 4 of 10, indices [30, 40)"; empty: none.
  std::string part;
  std::string waiting_for;  ///< the event it waits for; empty when none
  /// What has to end that event: "device 'io'", or "the holder of timeline 'sensor'".
  std::string signaller;
  std::chrono::nanoseconds waiting_time{0};
  bool overdue = false;          ///< in a watchdog's report: what exceeds the limit
  std::uint64_t recoveries = 0;  ///< times that recover() cleared a failure
  Status status;
  Counters counters;
  [[nodiscard]] std::string to_string() const;
};

/// One in-order timeline of tasks and what runs them. A shared handle: the last one closes the
/// device, letting accepted tasks end first (bounded by drain_max), except inside one of its own
/// tasks, in a callback on the thread that would tell of their ends, and after a shutdown() that
/// timed out, where it never waits. A handle that was moved from is empty: what is asked of it is
/// failed_precondition, its name "(empty handle)", its numbers are 0.
///
/// A failure counts as seen once status(), await() or an event told it to somebody, or once it is
/// the cause of a failure elsewhere. One that was not seen goes to the log, once, when its device
/// closes or the process exits.
class TaskDevice {
 public:
  using Clock = Event::Clock;

  /// Submits a task that calls `f()`, which returns void or Status; a failed Status or anything
  /// thrown fails the task. `f` must have a destructor that does not throw; what copying or moving
  /// it throws goes to the caller, and nothing was submitted. A refused submission gives an event
  /// that says so (accepted() is false). Takes no lock, no memory for callables of up to 48 bytes,
  /// and makes a system call only to wake a sleeping worker (S3).
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

  /// Submits a task that ends later than it returns: `f(completion)` begins something; the task
  /// ends when its Completion says so, or is dropped. Until then `f` is kept, and the device goes
  /// on with up to DeviceOptions::in_flight such tasks, which end in ticket order; a task without a
  /// Completion begins when all before it have ended. When `f` fails, the task has failed, and ends
  /// once the Completion is gone. A task behind one that failed is skipped, though it may have
  /// begun. Refused as failed_precondition where `in_flight` is 0.
  template <class F>
    requires(!std::is_invocable_v<std::decay_t<F>&> &&
             std::is_invocable_v<std::decay_t<F>&, Completion>)
  Event submit(Label label, F&& f, const SubmitOptions& options = {}) const {
    return submit_any(label, std::forward<F>(f), options);
  }

  /// Submits a task in parts: `f(from, to)` is called, in ascending order, for ranges [from, to)
  /// that make up [0, count), each index being in one: by the thread that runs the device's tasks
  /// and, at once, by others of the scheduler (SchedulerOptions::width). `f` is called as const,
  /// from several threads, and returns void or Status. The first part that fails fails the task,
  /// which names it; later parts that have not begun are left out, as all are after a stop request.
  /// Then the task ends, once those that began have. A slow thread holds up the part that it has.
  ///
  /// A part is inside the task (this_task), and waits for no event: failed_precondition. Refused as
  /// invalid_argument: a grain of 0, an empty `f`. Takes no memory for callables of up to 32 bytes.
  /// Parts run one after the other in mode manual, and where other parts already have the threads;
  /// so does what a part submits. In a simulation the seed decides which of `width` begun parts
  /// goes first, and what other devices do between them.
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

  /// An event that is done once all that was submitted before has ended, and has the status of the
  /// last of it: after a recovery, until something is submitted anew, that of what failed before.
  [[nodiscard]] Event record() const noexcept;
  /// The device waits for `event` before its next task; a failed event poisons it, and so does one
  /// that would wait, through other devices, for this one (failed_precondition). Done events and
  /// its own cost no task (S8).
  Event wait(const Event& event) const noexcept;

  /// Blocks until all that was submitted before the call has ended; then the device's status (S6).
  /// Inside one of its own tasks: failed_precondition.
  Status await() const noexcept;
  Status await_for(std::chrono::nanoseconds timeout) const noexcept;
  Status await_until(Clock::time_point deadline) const noexcept;
  [[nodiscard]] bool is_idle() const noexcept;

  /// ok, or the failure that poisoned the device.
  [[nodiscard]] Status status() const noexcept;
  /// After a failure: ends what is queued as skipped, and takes new tasks (S11). If nobody has
  /// seen the failure, the log tells it. Not from its own tasks.
  Status recover() const noexcept;
  /// Ends queued tasks as cancelled; the running one sees its stop token (S12).
  void cancel_pending() const noexcept;
  /// Refuses new work, lets accepted tasks end until the deadline, then cancels; joins the worker
  /// (S13). `deadline` when a running task did not stop in time: it is left to end by itself, with
  /// its thread and what it uses, and the log says when it has. Nobody waits for it any more: the
  /// handles of this device and of its scheduler go at once. A failure of the device that nobody
  /// has seen by then goes to the log. It may take 100 ms beyond the deadline, which cancelled
  /// tasks have to heed their stop token. Inside one of its own tasks, or in a callback on the
  /// thread that would tell of their ends: failed_precondition, and it takes no new tasks from then
  /// on all the same.
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
      // What may throw comes first: a place in the queue cannot be handed back.
      Callable made(std::forward<F>(f));
      return submit_from<Callable, Callable>(label, made, options...);
    }
  }

  /// Builds the callable where it will run, once there is a place for it. `From` is as submit()
  /// deduced it: F, or F& for what is to be copied.
  template <class Callable, class From, class... Options>
  Event submit_from(Label label, std::remove_reference_t<From>& from,
                    const Options&... options) const {
    if constexpr (sizeof...(Options) == 0) {
      if (DeviceCore* const core = core_.get(); core != nullptr) [[likely]] {
        if (const Slot slot = reserve(*core); slot.callable != nullptr) [[likely]] {
          const Event::Place place = place_;  // first: the task may drop this very handle
          ::new (slot.callable) Callable(static_cast<From&&>(from));
          publish(*core, slot, label.c_str(), ops<Callable, From>);
          return Event(place, slot.ticket);
        }
      }
    }
    const void* const at = std::addressof(from);
    return submit_task(label, ops<Callable, From>, const_cast<void*>(at), options...);
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

  /// What a task returns, and whether it ends later.
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

  /// A ticket, and where its callable is to be built; small enough for registers.
  struct Slot {
    void* callable;  ///< null: no ticket
    std::uint64_t ticket;
  };
  // A submission in two short calls, while one thread submits and nothing is to be looked at. What
  // calls them keeps its registers, and an event that nobody wants is never made.
  static Slot reserve(DeviceCore& core) noexcept;
  static void publish(DeviceCore& core, Slot slot, const char* label, const TaskOps& task) noexcept;
  // All others.
  Event submit_task(Label label, const TaskOps& task, void* from) const noexcept;
  Event submit_task(Label label, const TaskOps& task, void* from,
                    const SubmitOptions& options) const noexcept;
  /// Why it cannot be in parts; else what may help with them is there.
  [[nodiscard]] Status prepare_parts(Label label, bool empty,
                                     const std::optional<std::size_t>& grain) const noexcept;
  static Event refuse(Status why) noexcept;
  static Event refuse_memory(Label label) noexcept;
  static Event refuse_empty() noexcept;

  std::shared_ptr<DeviceCore> core_;  // keeps the Handle; null: empty
  Event::Place place_;                // where its events belong
};

/// A timeline that code outside the scheduler advances (S20): a driver's stream, the host's own
/// I/O. A shared handle: when the last one goes, tickets that were never signalled end as failed. A
/// handle that was moved from is empty: what it is asked for is refused as failed_precondition. One
/// inherited by a forked child is `unavailable` there.
class ExternalTimeline {
 public:
  explicit ExternalTimeline(std::string name);
  /// Reserves the next ticket: its event is done once signal() reaches it.
  Event next() noexcept;
  /// Everything up to `ticket` has ended; `status` is the end of `ticket` itself. Tickets that were
  /// never handed out, or have ended, are invalid_argument.
  Status signal(std::uint64_t ticket, Status status = {}) noexcept;
  [[nodiscard]] const std::string& name() const noexcept;

 private:
  std::shared_ptr<ExternalState> state_;
};

}  // namespace sched

}  // namespace heddle
#pragma GCC visibility pop
