// Sums of products on a GPU: tiles of results that a group's threads keep in registers, factors
// that they read together and share. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// A nest that is a contraction, as groups: each does a tile of results, each thread of it some of
/// these, whose sums stay in its registers. Of both factors, the group reads a block of terms at a
/// time to memory that its threads share, neighbours in memory by neighbouring threads. Results
/// have the order of terms of the loops, but that the longest loop of them is the innermost.
/// Nothing where it is none, or has too few results for the threads of a group.
[[nodiscard]] std::optional<Block> schedule_contraction_on_gpu(Scheduling& in, const StmtPtr& nest);

/// Throws invalid_argument where the results of a thread do not fit its registers, or terms the
/// memory of a group.
void check_gpu_tile(const ContractionTile& tile);

}  // namespace heddle::jit
