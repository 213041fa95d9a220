// HardwareQueue: what a device with tasks in flight issues them to, where that can wait for others
// of its kind by itself (D15); and HandOver, which knows what was issued to it. A gate waits until
// what its task comes after is issued, and hands the rest of the wait over; the ticket ends after
// that has ended all the same (LateEnds).
//
//   consumer of b           consumer of a: t comes after b#k     hardware       ends
//   issues b#k
//   b's issues = k  ------> gate open: come_after(b, k)          a waits for b
//                           issues t                             b#k runs, t runs
//                                                                               b#k
//                                                                               t, or refused for
//                                                                               b#k
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "heddle/scheduler.hpp"
#include "scheduler/device/timeline.hpp"

namespace heddle::sched {

/// For floors above. Called by the consumer of its device.
class HardwareQueue {
 public:
  HardwareQueue() = default;
  HardwareQueue(const HardwareQueue&) = delete;
  HardwareQueue& operator=(const HardwareQueue&) = delete;
  virtual ~HardwareQueue() = default;

  /// Queues that name the same one wait for each other. Constant; any thread.
  [[nodiscard]] virtual std::uint64_t domain() const noexcept = 0;
  /// `task` ends once all that was asked for so far has ended, and as that did. Also one that asked
  /// for waits alone.
  virtual void end(Completion task) noexcept = 0;
  /// What is asked for from here on begins once that ticket of `other`, which has issued it, has
  /// ended on the hardware. Not ok: it does not, and the scheduler waits.
  [[nodiscard]] virtual Status come_after(HardwareQueue& other, std::uint64_t ticket) noexcept = 0;

  /// Gives a device its queue, which it keeps: one that has tasks in flight, before its first one.
  /// Throws std::bad_alloc.
  static void give(const TaskDevice& device, std::shared_ptr<HardwareQueue> queue);

 protected:
  [[nodiscard]] static std::uint64_t ticket_of(const Completion& task) noexcept {
    return task.ticket_;
  }
};

/// The queue of a device, and which of its tickets that was given. Any thread.
class HandOver {
 public:
  HandOver(const std::string& device, std::shared_ptr<HardwareQueue> on)
      : queue(std::move(on)), issues_(Timeline::open("issues of " + device)) {}

  const std::shared_ptr<HardwareQueue> queue;

  [[nodiscard]] bool reaches(const HandOver& other) const noexcept {
    return other.queue->domain() == queue->domain();
  }
  /// Done once the ticket is issued.
  [[nodiscard]] Event issue_of(std::uint64_t ticket) noexcept { return issues_->event(ticket); }
  /// The consumer.
  void issued(std::uint64_t ticket) noexcept { issues_->complete(ticket); }

 private:
  const OwnedTimeline issues_;
};

}  // namespace heddle::sched
