// Stream: a queue of a device as tasks use it, whether operations are done when they return or run
// ahead: then it knows who waits for which of its marks, and has queues of its domain wait for
// them.
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

  /// Waits until all that was asked for so far is done. In a task: nothing else ends this wait. The
  /// first failure since the last mark.
  [[nodiscard]] Status settle() noexcept { return runs_ahead() ? wait() : Status(); }

  // Of a queue that runs ahead.

  [[nodiscard]] std::uint64_t domain() const noexcept override {
    return physical_->properties().completion_domain;
  }
  void end(sched::Completion task) noexcept override;
  [[nodiscard]] Status come_after(sched::HardwareQueue& other,
                                  std::uint64_t ticket) noexcept override;
  void ended(std::uint64_t number, Status status) noexcept override;

 private:
  /// Who is told of a mark: a task, or the one that waits for this ticket.
  struct Mark {
    std::optional<sched::Completion> task{};
    std::uint64_t waits = 0;
  };
  /// The mark of a task.
  struct Marked {
    std::uint64_t ticket = 0;
    std::uint64_t number = 0;
  };

  void tell(std::uint64_t number, Status status) noexcept;
  [[nodiscard]] Status wait() noexcept;
  [[nodiscard]] std::uint64_t record(Mark mark) noexcept;
  [[nodiscard]] std::uint64_t mark_of(std::uint64_t ticket) noexcept;

  const std::shared_ptr<dev::PhysicalDevice> physical_;  // outlives the queue
  std::optional<sched::ExternalTimeline> waits_;         // of tasks; none: it does not run ahead
  std::mutex mutex_;                                     // guards what follows
  std::vector<Mark> marks_;                              // a ring: those recorded and not told of
  std::uint64_t recorded_ = 0, told_ = 0;
  std::vector<Marked> tasks_;          // by ticket: those that are in flight
  std::unique_ptr<dev::Queue> queue_;  // constant; goes first
};

}  // namespace heddle::rt
