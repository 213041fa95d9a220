// Stream: a queue of a device as tasks use it, whether operations are done when they return or run
// ahead: then it knows what waits for which of its marks, and has queues of its domain wait for
// them. One task at a time asks a stream, or all those that it takes beside that of its own device:
//
//   own                            other
//   ... before the task
//   mark -----------------------> follow(own)
//                                  what the task asks for
//   join(other) <----------------- mark
//   mark of the task: told of once both are, with the first failure
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
  /// At most this many tasks of a device whose queue runs ahead are in flight: enough that short
  /// kernels follow each other while their ends are told.
  static constexpr std::uint32_t in_flight_max = 64;

  /// A new queue of that device. `exhausted` without memory, or what the device says.
  [[nodiscard]] static Status open(std::shared_ptr<dev::PhysicalDevice> physical,
                                   std::shared_ptr<Stream>* stream) noexcept;
  /// For open().
  explicit Stream(std::shared_ptr<dev::PhysicalDevice> physical);

  [[nodiscard]] const std::shared_ptr<dev::PhysicalDevice>& physical() const noexcept {
    return physical_;
  }
  /// One task at a time asks it; nothing but this class asks it to record.
  [[nodiscard]] dev::Queue& queue() const noexcept { return *queue_; }
  [[nodiscard]] bool runs_ahead() const noexcept { return waits_.has_value(); }

  /// Waits until all that was asked for so far is done, of queues that were joined too. In a task:
  /// nothing else ends this wait. The first failure since the last one was told.
  [[nodiscard]] Status settle() noexcept { return runs_ahead() ? wait() : Status(); }
  /// What is asked for from here on comes after all that `other` was asked for so far: on the
  /// hardware where both are of one domain, else this settles `other`. Its failures stay there.
  [[nodiscard]] Status follow(Stream& other) noexcept;
  /// As follow(), of a queue that nobody else joins: what this stream tells next, to the task or to
  /// settle(), comes after that too, and its failures are told with it.
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
  /// What is told of a mark: a task, the one that waits for this ticket, or both queues' own; or
  /// nobody, where queues alone wait for it.
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
  std::optional<sched::ExternalTimeline> waits_;  // tasks' waits; none: it does not run ahead
  std::shared_ptr<Joined> joined_;  // the running task's, for the next mark that is told, or null
  std::mutex mutex_;                // guards what follows
  std::vector<Mark> marks_;         // a ring: those that somebody is told of, and was not
  std::uint64_t first_mark_ = 0, next_mark_ = 0;
  std::uint64_t recorded_ = 0, told_ = 0;
  Status failed_;                      // before a mark that nobody is told of: for the next one
  std::vector<Marked> tasks_;          // by ticket: those that are in flight
  std::unique_ptr<dev::Queue> queue_;  // constant; goes first
};

}  // namespace heddle::rt
