// Rows shorter than a vector at computed positions, as of take(points, edges) and of
// points.at[edges].add(forces): a row at a time. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Schedules a nest whose innermost loop runs along such rows. Every element keeps its bits. Only
/// where the target has masks: rows that are read, or set, are loaded and stored by masks. Rows
/// that are changed, as by adding, are so only if they need none, because a load waits for the end
/// of a masked store to a neighbouring row (six times as long, Sapphire Rapids).
[[nodiscard]] std::optional<Block> schedule_rows_at_positions(Scheduling& in, const StmtPtr& nest);

}  // namespace heddle::jit
