// Transposes and other permutations on a GPU. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// An elementwise nest that reads across the memory that it writes, as groups: each reads a tile
/// along its rows to memory that its threads share, and writes it along its columns, so that
/// neighbouring threads have neighbours in memory both times. Nothing where it is none. Every
/// element keeps its bits.
[[nodiscard]] std::optional<Block> schedule_transpose_on_gpu(Scheduling& in, const StmtPtr& nest);

}  // namespace heddle::jit
