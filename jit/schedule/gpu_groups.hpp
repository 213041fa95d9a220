// Loops of a kernel as a GPU runs them: nests whose iterations share nothing become groups of
// threads. Pure; any thread.
#pragma once

#include <functional>
#include <optional>

#include "heddle/code.hpp"
#include "jit/lower/lower.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Each nest of the top level, as far as it is such a one, as tiles (gpu_contraction.hpp,
/// gpu_transpose.hpp), as rows of groups (gpu_rows.hpp), or else as parallel loops around a block
/// loop, whose threads take neighbours of the innermost axis, so that a group reads memory on end.
/// What is left runs in one thread.
/// `takes`: whether a step is not left out. `tile`: how many results of a contraction each thread
/// has, along rows and along lanes.
[[nodiscard]] Lowered schedule_on_gpu(Lowered lowered, const Target& target,
                                      const std::function<bool(ScheduleStep)>& takes,
                                      const std::optional<ContractionTile>& tile);

}  // namespace heddle::jit
