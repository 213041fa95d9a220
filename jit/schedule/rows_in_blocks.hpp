// Loops over the same rows that run better apart, as elements at positions and functions of them:
// block by block, so that what is between them stays in the first-level cache. Pure; any thread.
#pragma once

#include "jit/schedule/fuse.hpp"
#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Cuts neighbouring loops of the top level into blocks of their iterations where a loop reads, row
/// by row, scratch that a loop before it has written, and shrinks that scratch to a block. Loops
/// for which `fixed` holds stay whole.
[[nodiscard]] Block with_rows_in_blocks(Scheduling& in, const Block& body,
                                        const LoopQuestion& fixed);

}  // namespace heddle::jit
