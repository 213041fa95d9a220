// Rows read at computed positions, for a loop that adds them at other positions. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements of the kernel. Where a loop stores rows from nearest
/// positions to scratch, and one scatter alone reads them, row by row, as messages along the edges
/// of a graph, the scatter reads the rows where they come from: they are in no memory between.
/// Every element keeps its bits.
[[nodiscard]] Block with_gathers_joined(Scheduling& in, const Block& body);

}  // namespace heddle::jit
