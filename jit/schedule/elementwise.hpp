// Elementwise code in vectors. Pure; any thread.
#pragma once

#include <optional>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Schedules an innermost loop of straight-line code. Every element keeps its bits.
[[nodiscard]] std::optional<Block> schedule_elementwise(Scheduling& in, const StmtPtr& nest);
/// True if schedule_elementwise() would take all innermost loops of the nest, if they were long
/// enough.
[[nodiscard]] bool is_elementwise(const Scheduling& in, const StmtPtr& nest);

}  // namespace heddle::jit
