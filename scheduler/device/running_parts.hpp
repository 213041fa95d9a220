// RunningParts: how the range of a task is cut into parts, and which part runs, for snapshots. The
// thread that runs the task writes; any thread reads.
#pragma once

#include <atomic>
#include <cstddef>

#include "heddle/scheduler.hpp"
#include "scheduler/device/identity.hpp"
#include "scheduler/tuning.hpp"

namespace heddle::sched {

/// A cut range of indices: each part has `each` indices, the first `longer` parts have an extra
/// index, and the last part has the rest. Parts that are not a range of indices have a `count` of
/// 0.
struct Cut {
  /// Cuts by `grain`, or, if `grain` is 0, evenly into at most `parts_wanted` parts.
  [[nodiscard]] static Cut of(std::size_t count, std::size_t grain,
                              std::size_t parts_wanted) noexcept;
  [[nodiscard]] std::size_t from(std::size_t part) const noexcept {
    return part * each + (part < longer ? part : longer);
  }
  [[nodiscard]] std::size_t to(std::size_t part) const noexcept {
    return part + 1 == parts ? count : from(part + 1);
  }
  /// "part 4 of 10, indices [30, 40)"; "part 4 of 10"
  [[nodiscard]] std::string describe(std::size_t part) const;

  std::size_t count = 0, parts = 0, each = 0, longer = 0;
};

class alignas(tuning::line_bytes) RunningParts {
 public:
  void begin(const Cut& cut) noexcept;
  /// The device's own thread begins a part; note_rest(): it runs no part.
  void note(std::size_t part) noexcept {
    // relaxed, here and below: a number for snapshots; pairs with the load in show().
    next_.store(part + 1, std::memory_order_relaxed);
  }
  // relaxed: pairs with the load in show()
  void note_rest() noexcept { next_.store(0, std::memory_order_relaxed); }

  /// Shows the earliest running part of the task that `snapshot` shows.
  void show(Snapshot& snapshot, const Identity& device) const;

 private:
  // of the latest task with parts
  std::atomic<std::size_t> count_{0}, parts_{0}, each_{0}, longer_{0};
  std::atomic<std::size_t> next_{0};  // 1 + part; 0: none
};

}  // namespace heddle::sched
