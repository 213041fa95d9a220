// Drain: how a device comes to its end: shut down within a time, left to end by itself, or let go
// of inside one of its own tasks. Any thread, unless said otherwise.
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

  /// The device's worker, if it has one. Once.
  void join_later(std::thread worker) noexcept { thread_ = std::move(worker); }

  // A shutdown: these four in turn.

  /// Takes no more tasks. Why this thread cannot wait for those that it has; ok: it can.
  Status close() noexcept;
  /// Whether all that it was asked to do, which is no more, has ended by then, or is not for this
  /// thread to wait for.
  [[nodiscard]] bool ends_by(Event::Clock::time_point deadline) noexcept;
  /// Whether a cancel would help.
  [[nodiscard]] bool is_late() const noexcept;
  /// Without those of its tasks that have not ended yet.
  Status stop() noexcept;

  /// The last handle went: as a shutdown within drain_max, but never waits inside one of the
  /// device's own tasks. Returns what the caller lets go of last.
  [[nodiscard]] std::shared_ptr<void> abandon() noexcept;

  // The consumer.

  /// Whether the worker ends here.
  [[nodiscard]] bool stopping() const noexcept {
    // acquire: pairs with the release in stop_worker().
    return stop_.load(std::memory_order_acquire) && admission_.drained();
  }
  /// A shutdown may have given up waiting for what has ended now.
  void tell_left_ended() noexcept;
  /// How long what is left may wait for others; unset: the device has handles.
  [[nodiscard]] Deadline until() const noexcept {
    // acquire: pairs with the releases in abandon_inside(), which a completer may be in.
    const auto until = until_.load(std::memory_order_acquire);
    return until == Event::Clock::time_point::max() ? Deadline() : until;
  }
  /// Whether it keeps the device, where until() is set.
  [[nodiscard]] bool keeps() const noexcept { return kept_ != nullptr; }
  /// The device, to be let go of by the caller, if that was kept until now.
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
  /// The label of the task that a shutdown gave up waiting for; null: there is none, or it has
  /// ended, and the log says so.
  std::atomic<const char*> left_{nullptr};
  std::mutex join_;  // one joiner; guards thread_
  std::thread thread_;

  // The consumer's, once the last handle went inside a task, or its callbacks, and until_ says so.
  std::atomic<Event::Clock::time_point> until_{Event::Clock::time_point::max()};
  /// Others will end the rest: the device keeps itself until then.
  std::shared_ptr<DeviceCore> kept_;
  std::uint64_t alarm_ = 0;  // the runner's, for that
};

}  // namespace heddle::sched
