// The merge buffer of a device: what submitted tasks will find in it is known when they are
// submitted, in ticket order, so a routine that expects something else is refused at the call (D7).
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "runtime/context_state.hpp"
#include "runtime/statics.hpp"
#include "runtime/transfer.hpp"

namespace heddle::rt {

/// A tensor in a device's merge buffer, since its load was submitted.
struct Load {
  Tensor tensor;
  MergeMode mode;                          ///< as asked for, whether or not memory is shared
  std::optional<BufferView> borrowed;      ///< in place: using the load is using this
  std::shared_ptr<Loan> loan{};            ///< that, where writers see to it; null: the caller does
  std::byte* data = nullptr;               ///< where routines read it
  std::shared_ptr<const Memory> memory{};  ///< the slot's, that it was copied to; null: borrowed
  Event event{};                           ///< the end of the task that loads it
  std::optional<Event> before{};           ///< that of the load that it is a copy of
  bool filled = false;  ///< by that task, or asked for. For tasks of the device only
};

/// What merge() brings with it, or load_merge() leaves behind.
struct MergeSource {
  const Tensor* tensor;
  const BufferView* view;
  MergeMode mode;
};

/// How a launch gets its merge entry; filled in when it is submitted.
struct MergeRead {
  std::shared_ptr<Load> load;  ///< that it reads; null: merge() brings it
  std::optional<Move> move;    ///< done before the launch
  heddle_kernel_buffer buffer{};
  Accesses accesses;  ///< those of the launch and of what it merges

  /// For another launch; of this one it keeps nothing but room.
  void clear() noexcept;

  /// In the task. Where that is the host's, the load has ended by now, and may have ended badly.
  [[nodiscard]] Status prepare(Execution& execution, const Code& consumer) const;
  /// Where the queue ran ahead: the load may have ended badly since.
  [[nodiscard]] Status ended(const Execution& execution, const Code& consumer) const noexcept;

 private:
  [[nodiscard]] Status not_loaded(const Execution& execution, const Code& consumer) const noexcept;
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
/// `writer` is about to write what the loan is of: has it copied before, by a task of the borrower,
/// which is submitted as the options say. A merge buffer that can have no copy, as its device takes
/// no tasks or what it borrowed was not written, is empty from then on. Throws what refuses the
/// write: no room, no memory, nothing else.
void copy_loan(const std::shared_ptr<Loan>& loan, const SubmitOptions& options,
               const std::string& writer);
/// Schedules `launch`, of a consumer that reads its merge entry as `read` says; that is
/// filled in here. `source`: what merge() brings; null: what the device's merge buffer holds.
Event submit_consumer(const ContextState& context, const Linked& consumer, MergeRead& read,
                      const MergeSource* source, std::span<const std::int64_t> statics,
                      std::unique_ptr<Operation> launch, const SubmitOptions& options);

/// Launches; `source`: what merge() brings.
Event schedule(const RoutineState& routine, const Statics& statics, const ScheduleOptions& options,
               const MergeSource* source, const std::source_location& where);

}  // namespace heddle::rt
