// Data-parallel runs: several devices share the batches of one computation. Built from routines,
// copies and sums of a Recording: devices wait for other devices, never for the host.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <source_location>
#include <span>
#include <vector>

#include "heddle/replay.hpp"

namespace heddle::rt {
class DataParallelState;
}  // namespace heddle::rt

#pragma GCC visibility push(default)
namespace heddle {

/// What the devices compute, and how they share the result.
struct DataParallelOptions {
  /// The code that every device runs for a batch. The code must write every element of `sums` anew.
  Code gradient;
  /// The static index of `gradient` that selects the batch.
  StaticIndex batch;
  /// Tensors of `gradient` to add up: over the batches of a device, then over devices, in the order
  /// of their contexts.
  std::vector<Tensor> sums;
  /// The code that the first device runs afterwards; it reads the sums in `sums`. If the result is
  /// the same, every device runs `update` on its own memory. The conditions: the devices can
  /// address each other's memory, `gradient` and `update` share only sums and parameters,
  /// `gradient` does not change parameters, and memory written by `update` overlaps no memory of
  /// other tensors or devices.
  Code update;
  /// Tensors that every device receives from the first device before computing. May be empty.
  std::vector<Tensor> parameters{};
  /// Rounds per update; in a round every device computes one batch. The last rounds of a run are
  /// followed by an update even if they are fewer, or if some devices have no batch in the last
  /// round.
  std::int64_t merge_every = 1;
};

/// The progress of a run, after an update.
struct DataParallelProgress {
  std::int64_t updates = 0;  ///< updates of this run
  std::int64_t batches = 0;  ///< batches of this run contained in these updates
  /// The value of DataParallelRun::loss after the last update.
  std::optional<double> loss{};
};

/// Options of DataParallel::run().
struct DataParallelRun {
  /// Static indices of `gradient` and `update`, except the batch. Cells are read at the beginning
  /// of a run and after every on_update; between these points only occasionally, not before every
  /// update.
  Bindings bindings{};
  /// Called after every `report_every`-th update and after the last one, once the update has ended,
  /// on the thread that runs. Returning false ends the run; an exception ends the run and is
  /// rethrown.
  std::function<bool(const DataParallelProgress&)> on_update{};
  std::int64_t report_every = 1;
  /// A tensor of the first device, one element of f32 or f64, whose value is passed to on_update.
  /// Unset: no value is passed.
  std::optional<Tensor> loss{};
};

/// A shared handle. At most one run at a time; otherwise thread-safe.
class DataParallel {
 public:
  /// One context for each device; values are added in the order of the list. Links both codes and
  /// compiles the sums. Throws invalid_argument for no context, two contexts on one device, devices
  /// of different backends, merge_every below 1, no sums, tensors listed twice, a `gradient` that
  /// lacks `batch`, leaves a sum unwritten or reads its previous value, an `update` that has
  /// `batch`, and routines that merge; not_found naming a tensor that a context lacks; and the
  /// errors of Context::link() and Backend::compile().
  DataParallel(std::span<const Context> contexts, const DataParallelOptions& options);
  DataParallel(const DataParallel&) = default;
  DataParallel& operator=(const DataParallel&) = default;

  [[nodiscard]] std::size_t num_devices() const noexcept;
  /// The linked context of the k-th device. The context of the first device holds sums and
  /// parameters after an update: write parameters, and other input of updates, and read them there,
  /// before a run or in on_update. Throws invalid_argument naming the range.
  [[nodiscard]] Context context(std::size_t k = 0) const;

  /// Runs the batches, round robin over the devices, and returns the number of updates once every
  /// task has ended. Afterwards every device has the parameters of the last update. The bits depend
  /// on values, batches, `merge_every` and the number of devices, not on timing (D10). Other uses
  /// of the same memory are ordered as the backend's `Sync` says.
  ///
  /// Throws invalid_argument, before any task runs, for no batches, a batch out of range, invalid
  /// bindings, and invalid options; failed_precondition during a run by another thread, or inside
  /// on_update. A device failure ends the run and is thrown, naming the device. After
  /// Device::recover() of every device the next run is like the first one, once the host has
  /// written the parameters that a failed update should have written (D9).
  std::int64_t run(std::span<const std::int64_t> batches, const DataParallelRun& options = {},
                   std::source_location where = std::source_location::current()) const;
  /// Runs the batches from `begin` up to, but not including, `end`.
  std::int64_t run(std::int64_t begin, std::int64_t end, const DataParallelRun& options = {},
                   std::source_location where = std::source_location::current()) const;

 private:
  friend struct Inside;
  std::shared_ptr<rt::DataParallelState> state_;
};

}  // namespace heddle
#pragma GCC visibility pop
