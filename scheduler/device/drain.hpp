// Drain: how a device comes to its end: shut down within a time limit, left to finish alone, or
// released inside a task of the device. Any thread, unless said otherwise.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "heddle/scheduler.hpp"
#include "scheduler/device/admission.hpp"
#include "scheduler/device/control.hpp"
#include "scheduler/device/identity.hpp"
#include "scheduler/device/running_task.hpp"
#include "scheduler/device/summons.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

class alignas(tuning::line_bytes) Drain {
 public:
  using Deadline = Runner::Deadline;

  Drain(const Identity& device, Admission& admission, Summons& summons, Control& control,
        const RunningTask& running, std::shared_ptr<void> runner_owner) noexcept
      : device_(device),
        admission_(admission),
        summons_(summons),
        control_(control),
        running_(running),
        runner_owner_(std::move(runner_owner)) {}

  /// Takes over the device's worker thread, if the device has one. Called once.
  void join_later(std::thread worker) noexcept { thread_ = std::move(worker); }

  // A shutdown calls the next four functions in order.

  /// Refuses new tasks. Returns why this thread cannot wait for the queued tasks; ok: it can.
  Status close() noexcept;
  /// True if every task has ended by `deadline`, or this thread may not wait for the rest. Called
  /// after close(): the device takes no new tasks.
  [[nodiscard]] bool ends_by(Event::Clock::time_point deadline) noexcept;
  /// True if a cancel would help.
  [[nodiscard]] bool is_late() const noexcept;
  /// Stops without the tasks that have not ended yet.
  Status stop() noexcept;

  /// The last handle was released: shuts down within drain_max, but never waits inside one of the
  /// device's own tasks. Returns the object that the caller must release last.
  [[nodiscard]] std::shared_ptr<void> abandon() noexcept;

  // Called by the consumer.

  /// True if the worker ends here.
  [[nodiscard]] bool stopping() const noexcept {
    // acquire: pairs with the release in stop_worker().
    return stop_.load(std::memory_order_acquire) && admission_.drained();
  }
  /// Logs the end of tasks that a shutdown had given up waiting for.
  void tell_left_ended() noexcept;
  /// The time until which remaining tasks may wait for other devices; unset: the device has
  /// handles.
  [[nodiscard]] Deadline until() const noexcept {
    // acquire: pairs with the releases in abandon_inside(), which a completer may be in.
    const auto until = until_.load(std::memory_order_acquire);
    return until == Event::Clock::time_point::max() ? Deadline() : until;
  }
  /// True if the device keeps a reference to itself, where until() is set.
  [[nodiscard]] bool keeps() const noexcept { return kept_ != nullptr; }
  /// Returns the device, for the caller to release, if the device kept itself alive until now.
  [[nodiscard]] std::shared_ptr<DeviceCore> give_up() noexcept;

 private:
  [[nodiscard]] bool may_shut_down() const noexcept;
  [[nodiscard]] bool is_told_here() const noexcept;
  [[nodiscard]] Event last() const noexcept;
  void stop_worker(bool join) noexcept;
  void abandon_inside() noexcept;
  void close_lane() noexcept;

  const Identity& device_;
  Admission& admission_;
  Summons& summons_;
  Control& control_;
  const RunningTask& running_;
  std::shared_ptr<void> runner_owner_;  // until all tasks have ended
  std::atomic<bool> stop_{false};
  /// The label of the task that a shutdown gave up waiting for; null: no such task, or the task has
  /// ended and the log says so.
  std::atomic<const char*> left_{nullptr};
  std::mutex join_;  // one joiner; guards thread_
  std::thread thread_;

  // The members below belong to the consumer and its callbacks, once the last handle was released
  // inside a task and until_ is set.
  std::atomic<Event::Clock::time_point> until_{Event::Clock::time_point::max()};
  /// Set while other threads will end the remaining tasks: the device keeps itself alive until
  /// then.
  std::shared_ptr<DeviceCore> kept_;
  std::uint64_t alarm_ = 0;  // the runner's call at until_
};

}  // namespace heddle::sched
