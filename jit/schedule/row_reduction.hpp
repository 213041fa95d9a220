// Reductions along rows: several vectors of sums, folded pairwise. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// `declare` and the loops after it that sum into it: several vectors of sums, folded pairwise.
[[nodiscard]] std::optional<Block> schedule_row_reduction(Scheduling& in, const StmtPtr& declare,
                                                          const StmtPtr& nest);

}  // namespace heddle::jit
