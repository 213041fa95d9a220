// Opening: what upper layers need from a scheduler to open devices on it. Any thread.
#pragma once

#include <memory>

#include "heddle/scheduler.hpp"

namespace heddle::sched {

class Helpers;

class Opening {
 public:
  /// The helpers of the scheduler's own devices. Throws std::bad_alloc, and Error for a moved-from
  /// handle or in a forked child.
  [[nodiscard]] static std::shared_ptr<Helpers> helpers_of(const Scheduler& scheduler);
  /// Scheduler::new_device() with `helpers` for the device's parts: for a pooled device, the
  /// scheduler's workers visit these helpers. Null: the scheduler's own helpers.
  [[nodiscard]] static TaskDevice open(Scheduler& scheduler, DeviceOptions options,
                                       std::shared_ptr<Helpers> helpers);
};

}  // namespace heddle::sched
