// The merge buffer of a device: what submitted tasks will find in it is known when they are
// submitted, in ticket order, so a routine that expects something else is refused at the call (D7).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/context/context_state.hpp"
#include "runtime/launch/merge_read.hpp"
#include "runtime/launch/statics.hpp"

namespace heddle::rt {

/// What merge() brings with it, or load_merge() leaves behind.
struct MergeSource {
  const Tensor* tensor;
  const BufferView* view;
  MergeMode mode;
};

/// Whether a device can read `source` in place while the consumer, if one is known, runs: memory is
/// shared, and the consumer does not write it.
[[nodiscard]] bool may_borrow(const Execution& execution, const BufferView& source,
                              const Linked* consumer);

/// Throws invalid_argument when the consumer was compiled for the other mode only.
void require_mode(const Code& consumer, MergeMode mode);

/// The tensor that the consumer merges. Throws invalid_argument when it merges none, or not by that
/// mode.
[[nodiscard]] Tensor require_consumer(const Routine& consumer, MergeMode mode);
/// How launches of the consumer read what a merge() brings, again and again; `read` is empty. The
/// memory that they copy it to, of the device's merge buffer; null: they read it in place.
[[nodiscard]] std::shared_ptr<const Memory> read_merged(const DeviceState& device,
                                                        const Linked& consumer,
                                                        const MergeSource& source, MergeRead& read);

/// Loads the merge buffer.
Event submit_load(const std::shared_ptr<const DeviceState>& device, const MergeSource& source,
                  bool borrow, const SubmitOptions& options);
/// Schedules `launch`, of a consumer that reads its merge entry as `read` says; that is
/// filled in here. `source`: what merge() brings; null: what the device's merge buffer holds.
Event submit_consumer(const ContextState& context, const Linked& consumer, MergeRead& read,
                      const MergeSource* source, std::span<const std::int64_t> statics,
                      std::unique_ptr<Operation> launch, const SubmitOptions& options);

/// Launches; `source`: what merge() brings.
Event schedule(const RoutineState& routine, const Statics& statics, const ScheduleOptions& options,
               const MergeSource* source, const std::source_location& where);

}  // namespace heddle::rt
