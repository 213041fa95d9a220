// DeviceCore: one device behind its handles. Producers submit from any thread; one consumer at a
// time (its worker thread, or the thread that drains an inline device) calls step().
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "heddle/scheduler.hpp"
#include "scheduler/doorbell.hpp"
#include "scheduler/fiber.hpp"
#include "scheduler/lane.hpp"
#include "scheduler/parker.hpp"
#include "scheduler/timeline.hpp"
#include "scheduler/trace.hpp"

namespace heddle::sched {

struct TaskContext;

class DeviceCore : public std::enable_shared_from_this<DeviceCore> {
 public:
  using Clock = Event::Clock;
  using Deadline = std::optional<Clock::time_point>;

  explicit DeviceCore(DeviceOptions options);

  /// Makes the handle that users hold; starts the worker. Throws Error(unavailable) when no thread
  /// can be started.
  [[nodiscard]] static Device open(DeviceOptions options, std::shared_ptr<DeviceCore>* core);
  [[nodiscard]] static const std::shared_ptr<DeviceCore>& of(const Device& device) noexcept;

  /// `options` may be null: the defaults.
  Event submit(const char* label, const TaskOps& ops, void* callable,
               const SubmitOptions* options) noexcept;
  Event record() noexcept;
  Event wait(const Event& event) noexcept;
  Status await(Deadline deadline) noexcept;
  [[nodiscard]] bool is_idle() const noexcept;
  [[nodiscard]] Status status() const noexcept;
  Status recover() noexcept;
  void cancel_pending() noexcept;
  Status shutdown(std::chrono::nanoseconds timeout) noexcept;
  /// The last handle went: as shutdown(drain_max), but never waits inside one of its own tasks.
  void abandon() noexcept;

  [[nodiscard]] const DeviceOptions& options() const noexcept { return options_; }
  [[nodiscard]] const Timeline& timeline() const noexcept { return *timeline_; }
  [[nodiscard]] std::stop_token stop_token() noexcept;
  [[nodiscard]] Counters counters() const noexcept;
  [[nodiscard]] Snapshot snapshot() const;
  [[nodiscard]] std::chrono::nanoseconds spin() const noexcept;

  /// Waits for `event` inside a task of this device; cancelled when the task is asked to stop.
  /// Inline devices suspend the task, so that the caller goes on; else the thread sleeps.
  Status wait_inside(const Event& event) noexcept;
  /// Drains this device when the outermost callback of this thread is done.
  void put_off_drain() noexcept;
  /// See run_put_off().
  static void drain_put_off() noexcept;

 private:
  class Waiting;
  enum class Step : std::uint8_t { ran, idle };

  /// Ends at most one task: runs, skips or cancels it. The consumer. `context` is where the thread
  /// notes what it runs.
  Step step(TaskContext& context) noexcept;
  Step step_carefully(std::uint64_t ticket, TaskNote& note) noexcept;
  [[nodiscard]] bool gate_open(std::uint64_t ticket, TaskNote& note, Status& refusal,
                               bool& contained) noexcept;
  void run(std::uint64_t ticket, const TaskNote& note) noexcept;
  void end_failed(std::uint64_t ticket, const TaskNote& note, Status result) noexcept;
  void end_badly(std::uint64_t ticket, const TaskNote& note, Status why, bool poison) noexcept;
  void finish(std::uint64_t ticket, trace::Ended ended) noexcept;
  void drop(std::uint64_t ticket, End end, const Status& why, bool contained) noexcept;
  void renew_stop_source() noexcept;

  void work() noexcept;  // the worker thread
  // Inline mode.
  void drain() noexcept;
  void drain_all() noexcept;
  [[nodiscard]] bool suspend_until_ended(const Event& event) noexcept;
  void note_wait(const Event& event) noexcept;
  [[nodiscard]] bool arm(const Event& event) noexcept;
  void disarm() noexcept;
  void end_unrun(std::uint64_t ticket, const TaskNote& note, Status refusal,
                 bool contained) noexcept;
  Status skip_reason() const noexcept;
  void note_time() noexcept;
  // Tracing: a task begins where the one before it ended, unless something came between.
  void begin_trace() noexcept { traced_until_ = trace::stamp_if_on(); }
  [[gnu::noinline]] void trace_task(std::uint64_t ticket, trace::Ended ended) noexcept;
  [[gnu::noinline]] void call_back(std::uint64_t ticket) noexcept;

  [[gnu::noinline]] Event submit_slowly(const char* label, const TaskOps& ops, void* callable,
                                        const SubmitOptions* options) noexcept;
  Event submit_carefully(TaskNote& note, const TaskOps& ops, void* callable,
                         const SubmitOptions& options) noexcept;
  [[nodiscard]] std::optional<std::uint64_t> reserve(std::uint64_t me) noexcept {
    return lane_.reserve(me, [this] { return timeline_->completed(); });
  }
  /// After a task was published.
  void set_going() noexcept {
    if (options_.mode == Mode::threaded) {
      if (doorbell_.ring()) [[unlikely]]
        wake_worker();
    } else {
      drain();
    }
  }
  void wake_worker() noexcept;
  [[nodiscard]] Status refusal() noexcept;
  [[nodiscard]] Status check_producer() noexcept;
  [[nodiscard]] Status make_room(const SubmitOptions& options) noexcept;
  [[nodiscard]] Status wait_for_slot(std::uint64_t tickets, Deadline deadline) noexcept;
  Status sleep_until_ended(const Event& event) noexcept;
  [[nodiscard]] Status cancelled_wait(const Event& event) const;
  [[nodiscard]] bool inside_own_task() const noexcept;
  [[nodiscard]] bool drained() const noexcept;
  [[nodiscard]] Status own_task_refusal(const char* what) const;
  [[nodiscard]] Status forked() const noexcept;
  void stop_worker(bool join) noexcept;

  const DeviceOptions options_;
  const OwnedTimeline timeline_;
  const std::uint64_t id_;  // the timeline's
  const std::uint32_t fork_generation_;
  Lane<> lane_;

  // Written by the consumer.
  alignas(tuning::line_bytes) std::atomic<const char*> running_label_{nullptr};
  std::atomic<std::int64_t> clock_ns_{0};
  std::atomic<std::uint64_t> failed_{0}, skipped_{0}, cancelled_{0}, parks_{0}, spins_{0};
  std::uint64_t cancels_seen_ = 0;
  std::uint64_t traced_until_ = 0;    // when what was traced last ended; 0: before the trace
  std::uint32_t traced_session_ = 0;  // the trace that knows our name
  /// Inline mode: the event of the first task's gate that will call put_off_drain().
  struct Armed {
    Event event;
    std::uint64_t call = 0;
    std::uint64_t since = 0;  ///< when it was first found pending; 0: not traced
  } armed_;
  /// The last handle went inside a task: how long waits of later tasks may take.
  Deadline drain_until_;
  std::shared_ptr<Fiber> fiber_;  ///< inline mode: what the consumer runs on; null without memory

  // Written by producers and controllers.
  alignas(tuning::line_bytes) Doorbell<> doorbell_;
  std::atomic<std::uint64_t> drain_requests_{0};
  std::atomic<bool> stop_{false};
  /// Something that a task has to be looked at for before it runs: poison, a cancel.
  std::atomic<bool> careful_{false};
  std::atomic<bool> poisoned_{false};
  /// Submissions without options need no second look: no poison, no single producer to check.
  std::atomic<bool> plain_;
  std::atomic<std::uint64_t> cancel_upto_{0};
  std::atomic<std::uint64_t> cancels_{0};
  std::atomic<std::uint64_t> wakes_{0};
  Parker parker_;

  mutable std::mutex control_;  // guards what follows
  Status poison_;
  Status skip_reason_;
  Status last_poison_;  // what recover() cleared last
  mutable bool poison_observed_ = true;
  std::uint64_t epoch_ = 1;
  Event waiting_for_;  // default: nothing
  Clock::time_point waiting_since_;
  std::stop_source stop_source_;
  std::mutex join_;  // one joiner; guards thread_
  std::thread thread_;

  // Inline devices whose gate opened while their thread drained another one.
  std::atomic<bool> put_off_{false};
  std::shared_ptr<DeviceCore> next_put_off_;  // guarded by put_off_: belongs to who raised it

  friend struct BlockedOn;
  DeviceCore* blocked_on_ =
      nullptr;  // whose full queue our running task waits for; guarded by BlockedOn's mutex
};

}  // namespace heddle::sched
