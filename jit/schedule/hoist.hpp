// Computes a value that several iterations or statements share once:
// - before the nest, into scratch, where the loops that the value depends on can be repeated as
//   separate loops;
// - before the innermost loop that the value does not depend on, as a local, where the nest itself
//   writes the value's inputs;
// - before the first of several statements that use the value.
//
// Compilers cannot do so: they must assume that stores in between change the loaded elements, and
// they cannot see through the explicit instructions of vector code. Every value keeps its bits.
// Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Fills scratch with costly values that nests would recompute in many of their iterations.
void store_shared_values(Scheduling& in);
/// Moves costly values, as locals, before the loops that do not change them.
[[nodiscard]] Block hoist_values(Fresh& fresh, const Block& body);
/// Makes locals of costly values that statements of a block have in common.
[[nodiscard]] Block share_values(Fresh& fresh, const Block& body);
/// Makes locals of the elements that several statements at a computed position read, as scatters
/// of sums, minima and maxima of one array do, and none of them writes.
[[nodiscard]] Block share_loads(Fresh& fresh, const Block& body);

}  // namespace heddle::jit
