// Positions of the elements that a loop reads, as of take(x, k): kept in their range by vector
// code, for a block of iterations, before these iterations run. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements, where loops that read few elements at each nearest position are cut into blocks:
/// the positions of a block are computed first.
[[nodiscard]] Block with_positions_ahead(Scheduling& in, const Block& body);

}  // namespace heddle::jit
