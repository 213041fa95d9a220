// Sums of a few short rows that statements have read at positions and stored, as of
// sum(take(points, corners) * weights, 1) and of a stack of takes. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Where a reduction of at most 24 short rows alone reads scratch that earlier statements of the
/// top level fill with rows at nearest positions, it reads these rows itself: in one loop along the
/// row, inside all positions. Every element keeps its order of terms.
void join_stored_rows(Scheduling& in);

}  // namespace heddle::jit
