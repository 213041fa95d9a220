// Reductions along columns, a lane each. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Sums along columns: each has a lane of its own, so every element keeps its order of terms.
[[nodiscard]] std::optional<Block> schedule_column_reduction(Scheduling& in, const StmtPtr& nest);

/// A nest that schedule_column_reduction() has read memory along its rows. Joined with others, it
/// would have no schedule.
[[nodiscard]] bool is_column_reduction(Scheduling& in, const StmtPtr& nest);

}  // namespace heddle::jit
