// Reductions along columns, one lane per column. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Sums along columns: a column has a separate lane, so every element keeps the order of terms.
[[nodiscard]] std::optional<Block> schedule_column_reduction(Scheduling& in, const StmtPtr& nest);

/// True if schedule_column_reduction() makes the nest read memory along its rows. Joined with other
/// nests, the nest would have no schedule.
[[nodiscard]] bool is_column_reduction(Scheduling& in, const StmtPtr& nest);

}  // namespace heddle::jit
