// Loops whose iterations use the results of the iteration before, as running sums of rows, and what
// follows them. Pure; any thread.
#pragma once

#include "jit/schedule/fuse.hpp"
#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements, with the first iteration of a loop over all rows taken out where the loop
/// follows a recurrence of rows, whose results begin with the second row: both then run over the
/// same rows, and may be fused. The first iteration goes before the recurrence. Loops for which
/// `fixed` holds stay whole.
[[nodiscard]] Block with_rows_of_recurrences(Fresh& fresh, const Block& body,
                                             const LoopQuestion& fixed);

}  // namespace heddle::jit
