// Launches of a routine, as the queue of the device holds them. A small launch lies in the queue
// itself, and is scheduled without memory allocation; other launches are operations.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/context/merge.hpp"
#include "runtime/launch/statics.hpp"

namespace heddle::rt {

/// A launch with static indices as the only data of its own, on a device that ends tasks as they
/// run. The launch is counted in the routine's `launches`.
struct SmallLaunch {
  static constexpr std::size_t statics_max = 5;

  const Linked* linked = nullptr;
  std::int64_t statics[statics_max] = {};

  /// The queue's operations, once `linked` is set.
  [[nodiscard]] const sched::TaskOps& ops() const noexcept;
};
static_assert(sizeof(SmallLaunch) <= sched::task_bytes_max);

/// Tells whether every launch of the code without a trace can be small.
[[nodiscard]] bool is_small(const Code& code, const Execution& execution);

/// The fast path: submits without a lock where no event is awaited, the queue has room, and only
/// this thread schedules on the device. false: nothing has happened, and the caller must use
/// submit_small(), which reports errors.
[[nodiscard]] bool submit_plainly(const ContextState& context, SmallLaunch launch,
                                  Event& event) noexcept;
Event submit_small(const ContextState& context, const Linked& linked, SmallLaunch launch,
                   const SubmitOptions& options);

/// The state behind Call.
struct CallState {
  Routine routine;
  BoundStatics statics;
};

/// Submits any launch. `source`: the tensor that merge() brings; null: merging code reads the merge
/// buffer of the device.
Event submit_launch(const ContextState& context, const Linked& linked, const Statics& statics,
                    const std::function<void(const TracedValue&)>& trace, const MergeSource* source,
                    const SubmitOptions& options);

}  // namespace heddle::rt
