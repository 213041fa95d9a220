// Sums of products with a one-hot factor, as of group sums by matmul(x, one_hot(groups, depth)).
// Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Rewrites each sum of terms x * (place == column), over many columns, as sums at the places: a
/// term is added to the one column that it belongs to, instead of being multiplied by 0 for each
/// other column. A product of 0 and an infinite value, or a NaN, is NaN in every column, so the
/// columns also get the sum of 0 * x. Returns false if the kernel has no such sum; a kernel that
/// changed keeps definitions that nothing reads any more.
[[nodiscard]] bool add_at_places(Scheduling& in);

}  // namespace heddle::jit
