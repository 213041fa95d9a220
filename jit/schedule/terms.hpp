// Sums whose terms are computed by several statements get them by one, which is the form that
// schedules know: recomputed intermediates leave such statements. What is dear and met twice in a
// term becomes a local again afterwards (share_values). Pure; any thread.
#pragma once

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// Sums with terms of one statement each, where those are of several that only declare.
[[nodiscard]] Block with_whole_terms(const Block& body);

}  // namespace heddle::jit
