// Stream: a device's queue, as used by tasks. Operations either are done on return, or run ahead.
// A stream that runs ahead knows the receivers of its marks, and makes queues of its domain wait
// for marks. One task at a time uses a stream, together with further streams for its transfers:
//
//   own                            other
//   ... before the task
//   mark -----------------------> follow(own)
//                                  the task's work
//   join(other) <----------------- mark
//   mark of the task: reported after both marks, with the first failure
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "devices/device.hpp"
#include "heddle/scheduler.hpp"
#include "scheduler/device/hand_over.hpp"

namespace heddle::rt {

class Stream final : public dev::Completions,
                     public sched::HardwareQueue,
                     public std::enable_shared_from_this<Stream> {
 public:
  /// Maximum number of tasks in flight on a device whose queue runs ahead: enough for short kernels
  /// to follow each other while their ends are reported.
  static constexpr std::uint32_t in_flight_max = 64;

  /// Opens a new queue of the device. `exhausted` if there is no memory, or the device's error.
  [[nodiscard]] static Status open(std::shared_ptr<dev::PhysicalDevice> physical,
                                   std::shared_ptr<Stream>* stream) noexcept;
  /// For open().
  explicit Stream(std::shared_ptr<dev::PhysicalDevice> physical);

  [[nodiscard]] const std::shared_ptr<dev::PhysicalDevice>& physical() const noexcept {
    return physical_;
  }
  /// Used by one task at a time; only this class records marks.
  [[nodiscard]] dev::Queue& queue() const noexcept { return *queue_; }
  [[nodiscard]] bool runs_ahead() const noexcept { return waits_.has_value(); }

  /// Waits until the work issued so far is done, including work of joined queues. Called in a task;
  /// the wait cannot be interrupted. Returns the first failure since the last report.
  [[nodiscard]] Status settle() noexcept { return runs_ahead() ? wait() : Status(); }
  /// Orders later work of this stream after the work issued to `other` so far: by the hardware
  /// within one domain, otherwise by settling `other`. Failures of `other` stay with `other`.
  [[nodiscard]] Status follow(Stream& other) noexcept;
  /// Like follow(), for a queue not joined by any other stream: the next report of this stream, to
  /// the task or to settle(), also comes after the work of `other`, and includes its failures.
  [[nodiscard]] Status join(Stream& other) noexcept;

  // For a queue that runs ahead.

  [[nodiscard]] std::uint64_t domain() const noexcept override {
    return physical_->properties().completion_domain;
  }
  void end(sched::Completion task) noexcept override;
  [[nodiscard]] Status come_after(sched::HardwareQueue& other,
                                  std::uint64_t ticket) noexcept override;
  void ended(std::uint64_t number, Status status) noexcept override;

 private:
  class Joined;
  /// Receiver of a mark's end: a task, a waiter (`waits`: its ticket), or a join of two queues;
  /// none if only queues wait for the mark.
  struct Mark {
    std::uint64_t number = 0;
    std::optional<sched::Completion> task{};
    std::uint64_t waits = 0;
    std::shared_ptr<Joined> joined{};
    [[nodiscard]] bool is_told() const noexcept { return task || waits != 0 || joined; }
  };
  /// The mark of a task.
  struct Marked {
    std::uint64_t ticket = 0;
    std::uint64_t number = 0;
  };

  void tell(std::uint64_t number, Status status) noexcept;
  [[nodiscard]] Status wait() noexcept;
  [[nodiscard]] Status wait_for(Stream& other, Mark mark) noexcept;
  [[nodiscard]] Status record(Mark mark, std::uint64_t* number) noexcept;
  [[nodiscard]] Status tell_next(Mark mark, std::uint64_t* number) noexcept;
  [[nodiscard]] std::uint64_t mark_of(std::uint64_t ticket) noexcept;
  [[nodiscard]] bool take_next(std::uint64_t number, const Status& status, Mark* mark,
                               Status* how) noexcept;
  void tell(Mark mark, Status status) noexcept;

  const std::shared_ptr<dev::PhysicalDevice> physical_;  // outlives the queue
  // timeline of waits by tasks; none: the queue does not run ahead
  std::optional<sched::ExternalTimeline> waits_;
  std::shared_ptr<Joined> joined_;  // the running task's join, for the next reported mark; or null
  std::mutex mutex_;                // guards the members below
  std::vector<Mark> marks_;         // ring of marks with a receiver and no report yet
  std::uint64_t first_mark_ = 0, next_mark_ = 0;
  std::uint64_t recorded_ = 0, told_ = 0;
  Status failed_;              // failure before a mark without a receiver, for the next report
  std::vector<Marked> tasks_;  // marks of the tasks in flight, by ticket
  std::unique_ptr<dev::Queue> queue_;  // constant; destroyed first
};

}  // namespace heddle::rt
