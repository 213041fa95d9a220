// Transposes and other permutations on a GPU. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Schedules an elementwise nest that reads across the written memory. A group reads a
/// tile along its rows to shared memory, and writes the tile along its columns, so that
/// neighbouring threads access neighbours in memory both times. Returns nothing for other nests.
/// Every element keeps its bits.
[[nodiscard]] std::optional<Block> schedule_transpose_on_gpu(Scheduling& in, const StmtPtr& nest);

}  // namespace heddle::jit
