// Rows that are sorted in place, several side by side in the lanes of vectors. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements, with each pair of nests that assigns rows, and sorts each row in place by a
/// network (lower/sorting_network.hpp), as a loop over blocks of rows. The rows of a block are
/// lanes of scratch that stays in the first-level cache. Where the rows are no whole number of
/// blocks, the last block repeats rows of the block before.
[[nodiscard]] Block with_sorted_rows_side_by_side(Scheduling& in, const Block& body);

}  // namespace heddle::jit
