// Data-parallel runs: several devices share the batches of one computation. Made of routines,
// copies and sums of a Recording, so the devices wait for each other, and never for the host.
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

/// What devices share, and how.
struct DataParallelOptions {
  /// What each device runs for a batch. It writes each element of `sums` anew.
  Code gradient;
  /// The static index of `gradient` that says which batch.
  StaticIndex batch;
  /// Tensors of `gradient` that are added up: over the batches of a device, then over devices, in
  /// the order in which they are listed.
  std::vector<Tensor> sums;
  /// What the first device runs then. It finds the sums in `sums`. Where that comes to the same,
  /// every device runs it, with memory of its own for all that it uses: so where all reach each
  /// other's memory, sums and parameters are all that `gradient` and `update` both use, `gradient`
  /// leaves parameters as they are, and nothing that `update` writes lies in memory of others.
  Code update;
  /// What all devices have from the first one when they compute. May be empty.
  std::vector<Tensor> parameters{};
  /// Rounds before an update; in a round each device has one batch. The last rounds of a run make
  /// an update also where they are fewer, and where some devices have no batch in the last one.
  std::int64_t merge_every = 1;
};

/// How far a run is, after an update.
struct DataParallelProgress {
  std::int64_t updates = 0;  ///< of this run
  std::int64_t batches = 0;  ///< of this run, which are in these updates
  /// The value of DataParallelRun::loss after the last of them.
  std::optional<double> loss{};
};

/// How DataParallel::run() goes about it.
struct DataParallelRun {
  /// Static indices of `gradient` and `update`, but the batch. Cells are read as a run begins and
  /// after each on_update; in between now and then, and not before each update.
  Bindings bindings{};
  /// Called after every `report_every`-th update and the last one, once it has ended, by the thread
  /// that runs. false: the run ends here. What it throws ends the run too, and is thrown on.
  std::function<bool(const DataParallelProgress&)> on_update{};
  std::int64_t report_every = 1;
  /// A tensor of the first device, one element of f32 or f64, for on_update. Unset: it is told
  /// none.
  std::optional<Tensor> loss{};
};

/// A shared handle. One run at a time; else any thread may use it.
class DataParallel {
 public:
  /// One context for each device, in the order in which their values are added. Links both codes
  /// there, compiles what adds up. Throws invalid_argument for no
  /// context, two on one device, devices of different backends, merge_every below 1, no sums,
  /// tensors that are listed twice, a `gradient` that lacks `batch`, leaves a sum unwritten or
  /// reads what was in it before, an `update` that has `batch`, and routines that merge; not_found
  /// naming the tensor that a context lacks; as Context::link() and Backend::compile() do.
  DataParallel(std::span<const Context> contexts, const DataParallelOptions& options);
  DataParallel(const DataParallel&) = default;
  DataParallel& operator=(const DataParallel&) = default;

  [[nodiscard]] std::size_t num_devices() const noexcept;
  /// The k-th device's, after linking. The first one's holds sums and parameters after an update:
  /// where to write parameters, and what else an update reads, before a run or in on_update, and to
  /// read them. Throws invalid_argument naming the range.
  [[nodiscard]] Context context(std::size_t k = 0) const;

  /// Runs these batches, round robin over the devices, and returns the number of updates once all
  /// has ended. Afterwards all devices have the parameters of the last update. The bits depend on
  /// values, batches, `merge_every` and the number of devices, and on no timing (D10); what else
  /// uses the same memory is ordered as Backend's `Sync` says.
  ///
  /// Throws invalid_argument, before anything runs, for no batches, a batch out of range, bindings,
  /// and options that make no sense; failed_precondition while another thread, or the caller of
  /// on_update, is in a run. When a device fails, the run ends, and its failure is thrown, naming
  /// the device: after Device::recover() of all devices the next run is as the first one, once the
  /// host has written parameters that an update should have left (D9).
  std::int64_t run(std::span<const std::int64_t> batches, const DataParallelRun& options = {},
                   std::source_location where = std::source_location::current()) const;
  /// Those from `begin` up to `end`, which is not one of them.
  std::int64_t run(std::int64_t begin, std::int64_t end, const DataParallelRun& options = {},
                   std::source_location where = std::source_location::current()) const;

 private:
  friend struct Inside;
  std::shared_ptr<rt::DataParallelState> state_;
};

}  // namespace heddle
#pragma GCC visibility pop
