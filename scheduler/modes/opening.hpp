// Opening: what floors above ask of a scheduler for the devices that they open there. Any thread.
#pragma once

#include <memory>

#include "heddle/scheduler.hpp"

namespace heddle::sched {

class Helpers;

class Opening {
 public:
  /// What helps the scheduler's own devices with parts. Throws std::bad_alloc, and Error for a
  /// handle that was moved from, or in a forked child.
  [[nodiscard]] static std::shared_ptr<Helpers> helpers_of(const Scheduler& scheduler);
  /// Scheduler::new_device(); `helpers` help it with parts: of a pooled device they are visited by
  /// the scheduler's workers. Null: the scheduler's own.
  [[nodiscard]] static TaskDevice open(Scheduler& scheduler, DeviceOptions options,
                                       std::shared_ptr<Helpers> helpers);
};

}  // namespace heddle::sched
