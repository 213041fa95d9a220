// Positions that many rows have in common, as of take(x, k, 2): kept in their range, by vector
// code, once for the rows of an iteration of the outer loop. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements, where loops that read few elements at each nearest position, and that the loops
/// around repeat with the same positions, read without a check.
[[nodiscard]] Block with_repeated_positions(Scheduling& in, const Block& body);

}  // namespace heddle::jit
