// Reductions along rows: several vectors of sums, folded pairwise. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/lanes.hpp"
#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Schedules `declare` and the loops after it that sum into it: several vectors of sums, folded
/// pairwise.
[[nodiscard]] std::optional<Block> schedule_row_reduction(Scheduling& in, const StmtPtr& declare,
                                                          const StmtPtr& nest);

/// Schedules the contiguous columns of `nest`, fewer than a vector has lanes: each lane of some
/// vectors has terms of a single column.
[[nodiscard]] std::optional<Block> schedule_narrow_columns(Scheduling& in, const StmtPtr& nest,
                                                           Reduction r, Block after);

}  // namespace heddle::jit
