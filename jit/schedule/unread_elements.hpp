// Scratch that is computed only as far as it is read. Pure; any thread.
#pragma once

#include "jit/lower/lower.hpp"

namespace heddle::jit {

/// Shrinks scratch, and the loops that compute it, to the elements that are read, as the two
/// columns of a product that a program uses: along each axis from the first to the last, or a few
/// with equal gaps between them; of the innermost axis, where an eighth or more is not read.
/// Elements keep their statements, in the same order.
void drop_unread_elements(Lowered& lowered);

}  // namespace heddle::jit
