// Rows too short for vectors along them, as of a softmax over ten classes: as many rows as a vector
// has lanes run side by side, each in its own lane. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Cuts a nest over rows of at most three vectors, and a rest, into blocks of rows: the rows of a
/// block are turned in registers, and reduced and changed lane by lane; each sum keeps the order of
/// its row. Rows, of at most 128 elements then, may be computed from shorter ones, as the distances
/// of a point to some centres are from its coordinates: sums of at most eight terms are unrolled.
/// Returns nothing where rows depend on each other, where a loop along rows has no vector form, and
/// where compilers find the vectors themselves.
[[nodiscard]] std::optional<Block> schedule_short_rows(Scheduling& in, const StmtPtr& nest);

}  // namespace heddle::jit
