// The loops of a kernel as a GPU runs them: nests whose iterations share nothing become groups of
// threads. Pure; any thread.
#pragma once

#include <functional>
#include <optional>

#include "heddle/code.hpp"
#include "jit/lower/lower.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Schedules each nest of the top level whose iterations share nothing: as tiles
/// (gpu_contraction.hpp, gpu_transpose.hpp), as rows of groups (gpu_rows.hpp), or else as parallel
/// loops around a block loop. The threads of a block loop take neighbours of the innermost axis, so
/// that a group reads contiguous memory. The remaining statements run in a single thread. `takes`:
/// whether a step is enabled. `tile`: results of a contraction per thread, along rows and along
/// lanes. `unordered`: threads may accumulate in any order, see gpu_scatter.hpp.
[[nodiscard]] Lowered schedule_on_gpu(Lowered lowered, const Target& target,
                                      const std::function<bool(ScheduleStep)>& takes,
                                      const std::optional<ContractionTile>& tile, bool unordered);

}  // namespace heddle::jit
