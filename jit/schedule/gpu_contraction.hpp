// Sums of products on a GPU: the threads of a group keep tiles of results in registers, and read
// factors together into shared memory. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Schedules a contraction as groups: each group computes a tile of results, and each thread some
/// of them, with the sums in its registers. The group reads blocks of terms of both factors to
/// shared memory; neighbouring threads read neighbours in memory. Results have the loops' order of
/// terms, except that the longest loop becomes the innermost. Returns nothing where the nest is no
/// contraction, or has too few results for the threads of a group.
[[nodiscard]] std::optional<Block> schedule_contraction_on_gpu(Scheduling& in, const StmtPtr& nest);

/// Throws invalid_argument where the results of a thread do not fit its registers, or the terms do
/// not fit a group's memory.
void check_gpu_tile(const ContractionTile& tile);

}  // namespace heddle::jit
