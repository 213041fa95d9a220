// Launches of a routine, as the queue of its device holds them: a small one lies in the queue
// itself, so that scheduling it takes no memory; others are operations.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "runtime/context/merge.hpp"
#include "runtime/launch/statics.hpp"

namespace heddle::rt {

/// What a routine needs in the queue where nothing is to be looked at but static indices, and its
/// device ends tasks as they run. Holds the routine by being counted there.
struct SmallLaunch {
  static constexpr std::size_t statics_max = 5;

  const Linked* linked = nullptr;
  std::int64_t statics[statics_max] = {};

  static const sched::TaskOps ops;
};
static_assert(sizeof(SmallLaunch) <= sched::task_bytes_max);

/// Whether all its launches without a trace can be small.
[[nodiscard]] bool is_small(const Code& code, const Execution& execution);

/// Submits it where no event is awaited, the queue has room, and this thread alone schedules on the
/// device: without a lock. false: nothing has happened, and submit_small() will tell.
[[nodiscard]] bool submit_plainly(const ContextState& context, SmallLaunch launch,
                                  Event& event) noexcept;
Event submit_small(const ContextState& context, const Linked& linked, SmallLaunch launch,
                   const SubmitOptions& options);

/// What is behind Call.
struct CallState {
  Routine routine;
  BoundStatics statics;
};

/// Any launch. `source`: what merge() brings; null: its code merges what the device's buffer holds,
/// if it merges.
Event submit_launch(const ContextState& context, const Linked& linked, const Statics& statics,
                    const std::function<void(const TracedValue&)>& trace, const MergeSource* source,
                    const SubmitOptions& options);

}  // namespace heddle::rt
