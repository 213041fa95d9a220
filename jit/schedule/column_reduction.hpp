// Reductions along columns, a lane each. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Sums along columns: each has a lane of its own, so every element keeps its order of terms.
[[nodiscard]] std::optional<Block> schedule_column_reduction(Scheduling& in, const StmtPtr& nest);

/// A nest that is better scheduled by itself than joined with others, which would read memory
/// across its rows.
[[nodiscard]] bool is_column_reduction(const Loop& loop, const StmtPtr& nest);

}  // namespace heddle::jit
