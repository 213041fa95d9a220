// The merge buffer of a device. The content that a task will find is known at its submission, in
// ticket order, hence a routine that expects other content is refused at the call (D7).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/context/context_state.hpp"
#include "runtime/launch/merge_read.hpp"
#include "runtime/launch/statics.hpp"

namespace heddle::rt {

/// The tensor that merge() brings, or load_merge() loads.
struct MergeSource {
  const Tensor* tensor;
  const BufferView* view;
  MergeMode mode;
};

/// Tells whether the device can read `source` in place during the consumer's run: the device
/// reaches the memory, and the consumer, if known, does not write there.
[[nodiscard]] bool may_borrow(const Execution& execution, const BufferView& source,
                              const Linked* consumer);

/// Throws invalid_argument where the consumer was compiled for the other mode only.
void require_mode(const Code& consumer, MergeMode mode);

/// The tensor that the consumer merges. Throws invalid_argument where the consumer merges none, or
/// does not support the mode.
[[nodiscard]] Tensor require_consumer(const Routine& consumer, MergeMode mode);
/// Fills in `read`, empty before, for repeated launches of the consumer with the tensor of a
/// merge(). Returns the merge buffer's memory for the copy; null: the launches read in place.
[[nodiscard]] std::shared_ptr<const Memory> read_merged(const DeviceState& device,
                                                        const Linked& consumer,
                                                        const MergeSource& source, MergeRead& read);

/// Submits a task that loads the merge buffer.
Event submit_load(const std::shared_ptr<const DeviceState>& device, const MergeSource& source,
                  bool borrow, const SubmitOptions& options);
/// Schedules `launch` of a consumer, and fills in `read`, the consumer's way to the merge entry.
/// `source`: the tensor that merge() brings; null: the consumer reads the merge buffer of the
/// device.
Event submit_consumer(const ContextState& context, const Linked& consumer, MergeRead& read,
                      const MergeSource* source, std::span<const std::int64_t> statics,
                      std::unique_ptr<Operation> launch, const SubmitOptions& options);

/// Launches a routine; `source`: the tensor that merge() brings, or null.
Event schedule(const RoutineState& routine, const Statics& statics, const ScheduleOptions& options,
               const MergeSource* source, const std::source_location& where);

}  // namespace heddle::rt
