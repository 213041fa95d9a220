// HardwareQueue: the queue for issued tasks of a device with tasks in flight, if the hardware can
// make it wait for other queues of its kind (D15); and HandOver, which records the issued tickets.
// A gate waits only until the predecessors of its task are issued, and leaves the rest of the wait
// to the hardware. The ticket still ends after those predecessors have ended (LateEnds).
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

/// For upper layers. Called by the consumer of the queue's device.
class HardwareQueue {
 public:
  HardwareQueue() = default;
  HardwareQueue(const HardwareQueue&) = delete;
  HardwareQueue& operator=(const HardwareQueue&) = delete;
  virtual ~HardwareQueue() = default;

  /// Queues with equal domains can wait for each other. Constant; any thread.
  [[nodiscard]] virtual std::uint64_t domain() const noexcept = 0;
  /// `task` ends, with the same status, once the work issued to the queue so far has ended. Called
  /// also for a task that issued only waits.
  virtual void end(Completion task) noexcept = 0;
  /// Work issued from now on begins once ticket `ticket` of `other`, already issued there, has
  /// ended on the hardware. A failed status: the hardware does not wait, and the scheduler does.
  [[nodiscard]] virtual Status come_after(HardwareQueue& other, std::uint64_t ticket) noexcept = 0;

  /// Gives a device its queue for good: called before the first task of a device that has tasks in
  /// flight. Throws std::bad_alloc.
  static void give(const TaskDevice& device, std::shared_ptr<HardwareQueue> queue);

 protected:
  [[nodiscard]] static std::uint64_t ticket_of(const Completion& task) noexcept {
    return task.ticket_;
  }
};

/// The queue of a device, and the tickets issued to that queue. Any thread.
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
  /// Called by the consumer.
  void issued(std::uint64_t ticket) noexcept { issues_->complete(ticket); }

 private:
  const OwnedTimeline issues_;
};

}  // namespace heddle::sched
