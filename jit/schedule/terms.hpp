// Rewrites sums whose terms are computed by several statements to use a single statement, the form
// that schedules recognise: recomputed intermediates leave several statements. A costly value with
// two uses in a term becomes a local again afterwards (share_values). Pure; any thread.
#pragma once

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The body, with each term in a single statement where several statements only declare its parts.
[[nodiscard]] Block with_whole_terms(const Block& body);

}  // namespace heddle::jit
