// DeviceCore: one device behind its handles. Producers submit from any thread; one consumer at a
// time (its worker thread, or a thread that its runner finds) calls step().
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>

#include "heddle/scheduler.hpp"
#include "scheduler/device/runner.hpp"
#include "scheduler/device/timeline.hpp"
#include "scheduler/device/waiting.hpp"
#include "scheduler/observe/trace.hpp"
#include "scheduler/protocol/doorbell.hpp"
#include "scheduler/protocol/health.hpp"
#include "scheduler/protocol/lane.hpp"
#include "scheduler/protocol/turns.hpp"
#include "scheduler/threads/fiber.hpp"
#include "scheduler/threads/parker.hpp"
#include "scheduler/threads/ready.hpp"
#include "scheduler/threads/thread_number.hpp"

namespace heddle::sched {

struct TaskContext;
class Admission;

/// What users' handles share.
struct Device::Handle {
  std::shared_ptr<DeviceCore> core;
  explicit Handle(std::shared_ptr<DeviceCore> device) noexcept;
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;
};

class DeviceCore : public std::enable_shared_from_this<DeviceCore> {
 public:
  using Clock = Event::Clock;
  using Deadline = std::optional<Clock::time_point>;

  DeviceCore(DeviceOptions options, OwnedRunner runner);

  /// Makes the handle that users hold; starts the worker where there is no `runner`. Throws
  /// Error(unavailable) when no thread can be started.
  [[nodiscard]] static Device open(DeviceOptions options, OwnedRunner runner,
                                   std::shared_ptr<DeviceCore>* core);
  /// Of a device whose handle is not empty.
  [[nodiscard]] static std::shared_ptr<DeviceCore> of(const Device& device) noexcept;
  /// The same, held by `device` alone; that handle is not empty.
  [[nodiscard]] static DeviceCore& in(const Device& device) noexcept { return *device.core_; }

  Event submit(Label label, const TaskOps& ops, void* from) noexcept;
  /// `admission`, if any, is asked right before the ticket is taken.
  Event submit_carefully(Label label, TaskNote& note, const TaskOps& ops, void* from,
                         const SubmitOptions& options, Admission* admission = nullptr) noexcept;
  Event record() noexcept;
  Event wait(const Event& event) noexcept;
  Status await(Deadline deadline) noexcept;
  [[nodiscard]] bool is_idle() const noexcept;
  [[nodiscard]] Status status() const noexcept;
  Status recover() noexcept;
  void cancel_pending() noexcept;
  Status shutdown(std::chrono::nanoseconds timeout) noexcept;
  /// Together, within one deadline and one grace; the first failure.
  static Status shutdown(std::span<DeviceCore* const> devices,
                         std::chrono::nanoseconds timeout) noexcept;
  /// The last handle went: as shutdown(drain_max), but never waits inside one of its own tasks.
  /// Returns what the caller lets go of last.
  [[nodiscard]] std::shared_ptr<void> abandon() noexcept;

  [[nodiscard]] const DeviceOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Timeline& timeline() const noexcept { return *timeline_; }
  /// Of the task that its consumer is at, or was last.
  [[nodiscard]] const char* label() const noexcept {
    // relaxed: pairs with the stores in step_plainly() and step_carefully(); inside the task it is
    // its own.
    const char* const text = label_.load(std::memory_order_relaxed);
    return text != nullptr ? text : "";
  }
  /// Of its task `ticket`, which runs or has just ended. Its consumer.
  [[nodiscard]] std::stop_token stop_token(std::uint64_t ticket) noexcept;
  [[nodiscard]] Counters counters() const noexcept;
  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] std::chrono::nanoseconds spin() const noexcept;

  /// See wait_here(): inside a task of this device.
  [[nodiscard]] Waited wait_in_task(const Event& event, Deadline deadline,
                                    bool heeds_stop) noexcept;
  /// Why the running task's latest wait was refused.
  [[nodiscard]] Status take_wait_refusal() noexcept { return std::exchange(wait_refusal_, {}); }

  // For runners.

  /// Something may have changed for the consumer: it will look after this. Any thread.
  void look() noexcept {
    if (turns_.ask()) runner_->run(*this);
  }
  /// The consumer's turn, on `fiber` (null: on the thread's own stack): ends up to `tasks_max`
  /// tasks. true: there may be more, and the caller sees to the next turn; false: look() will. The
  /// caller holds the device.
  [[nodiscard]] bool take_turn(Fiber* fiber, std::uint32_t tasks_max) noexcept;
  /// By which it waits for a turn in a pool; belongs to who sees to it.
  [[nodiscard]] ReadyLink& ready_link() noexcept { return ready_link_; }
  /// Instead of a turn that was to be seen to: others will ask for one.
  void give_turn_back() noexcept {
    std::uint64_t known = 1;
    while (!turns_.end(known)) {
    }
  }
  /// Links devices that wait for a turn on one thread; belongs to who sees to it.
  [[nodiscard]] std::shared_ptr<DeviceCore>& next_ready() noexcept { return next_ready_; }
  /// true: the caller puts a look off, and calls put_on() before it looks.
  [[nodiscard]] bool put_off() noexcept {
    // acq_rel: pairs with the release in put_on(). If it is still raised, who raised it looks after
    // this.
    return !put_off_.exchange(true, std::memory_order_acq_rel);
  }
  void put_on() noexcept {
    // acq_rel: release pairs with the exchange in put_off(); acquire: who found it raised came
    // before, so this look sees the event done.
    put_off_.exchange(false, std::memory_order_acq_rel);
  }

 private:
  class Waiting;
  class InGraph;
  /// What ends a wait before its event is done; `timed`: its user says when.
  struct WaitLimits {
    Deadline deadline;
    bool timed = false;
    bool heeds_stop = true;
  };
  /// Ends up to `tasks_max` tasks: runs, skips or cancels them. How many; 0: there is none, or the
  /// next one cannot begin yet. The consumer. `context` is where the thread notes what it runs.
  [[nodiscard]] std::uint32_t step(TaskContext& context, std::uint32_t tasks_max) noexcept;
  template <bool traced>
  [[nodiscard]] std::uint32_t step_plainly(TaskContext& context, std::uint32_t tasks_max) noexcept;
  [[nodiscard]] std::uint32_t step_carefully(TaskContext& context) noexcept;
  [[nodiscard]] bool look_closely(std::uint64_t ticket, const TaskNote& note) noexcept;
  [[nodiscard]] bool gate_open(std::uint64_t ticket, const TaskNote& note, Status& refusal,
                               bool& contained) noexcept;
  [[nodiscard]] std::string describe(std::uint64_t ticket, const TaskNote& note) const;
  [[nodiscard]] bool look_around(std::uint64_t ticket) noexcept;
  void end_failed(std::uint64_t ticket, const TaskNote& note) noexcept;
  void end_badly(std::uint64_t ticket, const TaskNote& note, Status why, bool poison) noexcept;
  void destroy(std::uint64_t ticket) noexcept;
  void finish(std::uint64_t ticket, trace::Ended ended) noexcept;
  void drop(std::uint64_t ticket, End end, const Status& why, bool contained) noexcept;
  void rest() noexcept;
  [[nodiscard]] std::stop_source& stop_source_of(std::uint64_t ticket) noexcept;

  void work() noexcept;  // the worker thread
  void let_gather() noexcept;
  void note_wait(const Event& event) noexcept;
  [[nodiscard]] std::optional<Waited> suspend_until_ended(Fiber& fiber, const Event& event,
                                                          const WaitLimits& limits) noexcept;
  [[nodiscard]] Waited sleep_until_ended(const Event& event, const WaitLimits& limits) noexcept;
  [[nodiscard]] Waited refuse_wait(const Event& event) noexcept;
  [[nodiscard]] std::optional<Waited> arm(const Event& event) noexcept;
  void disarm() noexcept;
  void end_unrun(std::uint64_t ticket, const TaskNote& note, Status refusal,
                 bool contained) noexcept;
  Status skip_reason() const noexcept;
  void note_time() noexcept;
  // Tracing: a task begins where the one before it ended, unless something came between.
  void begin_trace() noexcept { traced_until_ = trace::stamp_if_on(); }
  void trace_task(std::uint64_t ticket, trace::Ended ended) noexcept;
  [[gnu::noinline]] void name_trace() noexcept;
  void call_back(std::uint64_t ticket) noexcept;

  [[nodiscard]] Event submit_otherwise(Label label, const TaskOps& ops, void* from) noexcept;
  [[nodiscard]] Event publish(std::uint64_t ticket, Label label, const TaskOps& ops,
                              void* from) noexcept;
  [[nodiscard]] std::uint64_t reserve_admitted(TaskNote& note, std::size_t asked, bool full,
                                               Admission& admission, Status& why) noexcept;
  [[nodiscard]] std::uint64_t reserve(std::uint64_t me) noexcept {
    return lane_.reserve(me, [this] { return timeline_->completed(); });
  }
  /// After a task was published.
  void set_going() noexcept {
    if (!doorbell_.quiet()) [[unlikely]]
      set_going_closely();
  }
  void set_going_closely() noexcept;
  void wake_worker() noexcept;
  [[nodiscard]] Status refusal() const noexcept;
  void tell_poison() noexcept;
  [[nodiscard]] Status check_producer() noexcept;
  [[nodiscard]] Status make_room(const SubmitOptions& options) noexcept;
  [[nodiscard]] Status wait_for_slot(std::uint64_t tickets, Deadline deadline) noexcept;
  [[nodiscard]] bool inside_own_task() const noexcept;
  [[nodiscard]] bool drained() const noexcept;
  [[nodiscard]] Status own_task_refusal(const char* what) const;
  [[nodiscard]] Status forked() const noexcept;
  [[nodiscard]] bool may_shut_down() const noexcept;
  [[nodiscard]] Status close() noexcept;
  [[nodiscard]] bool drain(Clock::time_point deadline) noexcept;
  [[nodiscard]] Status stop() noexcept;
  void stop_worker(bool join) noexcept;
  void tell_left_ended() noexcept;
  void abandon_inside() noexcept;

  const DeviceOptions options_;
  const OwnedTimeline timeline_;
  const std::uint64_t id_;  // the timeline's
  const Event::Place place_{timeline_.get(), id_};
  const std::uint32_t fork_generation_;
  const bool simulated_;                  // always careful, never plain
  const std::shared_ptr<Runner> runner_;  // null: a thread of its own
  std::shared_ptr<void> runner_owner_;    // until all tasks have ended
  Lane<> lane_;

  // Written by the consumer.
  alignas(tuning::line_bytes) std::atomic<const char*> label_{nullptr};
  std::atomic<bool> looking_{false};  // at that task, which does not run yet
  std::atomic<std::int64_t> clock_ns_{0};
  std::atomic<std::uint64_t> failed_{0}, skipped_{0}, cancelled_{0}, parks_{0}, spins_{0};
  Status failure_;                    // of the task that ran
  Status wait_refusal_;               // of the latest wait that would have closed a cycle
  std::uint64_t traced_until_ = 0;    // when what was traced last ended; 0: before the trace
  std::uint32_t traced_session_ = 0;  // the trace that knows our name
  /// The event of the first task's gate that will make this device look again.
  struct Armed {
    Event event;
    std::uint64_t call = 0;
    std::uint64_t since = 0;  ///< when it was first found pending; 0: not traced
  } armed_;
  /// The last handle went inside a task: how long what is left may wait for others.
  Deadline drain_until_;
  /// The last handle went inside a task, and others will end the rest: this keeps itself until
  /// then.
  std::shared_ptr<DeviceCore> kept_;
  std::uint64_t drain_call_ = 0;  // the runner's alarm for that

  // Written by producers and controllers.
  alignas(tuning::line_bytes) Doorbell<> doorbell_;
  Turns<> turns_;
  ReadyLink ready_link_;  // who asks for a turn has this line
  std::atomic<bool> stop_{false};
  /// The label of the task that a shutdown gave up waiting for; null: there is none, or it has
  /// ended, and the log says so.
  std::atomic<const char*> left_{nullptr};
  Health<> health_;                                        // changed with control_ held
  std::atomic<std::uint64_t> producer_{no_thread_number};  // the one of single_producer
  std::atomic<std::uint64_t> wakes_{0};
  Parker parker_;

  mutable std::mutex control_;  // guards what follows
  Status poison_;
  Status skip_reason_;
  Status last_poison_;               // what recover() cleared last
  std::uint64_t poison_ticket_ = 0;  // of the task that failed
  std::uint64_t epoch_ = 1;
  Event waiting_for_;  // default: nothing
  Clock::time_point waiting_since_;
  std::stop_source stop_source_;
  bool stop_source_used_ = false;  // a cancel asks by it, or has
  std::mutex join_;                // one joiner; guards thread_
  std::thread thread_;

  // Devices that wait for a turn.
  std::atomic<bool> put_off_{false};
  std::shared_ptr<DeviceCore> next_ready_;
};

}  // namespace heddle::sched
