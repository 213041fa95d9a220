// Reductions of tests, as of any(x > 1) and all(x == y): extremes of ones and zeros of the tested
// elements' size, which vectors compute. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements, with an integer in place of each bool that only or, or only and, gathers from
/// tests of elements of one size.
[[nodiscard]] Block with_integers_for_bools(const Block& body);

}  // namespace heddle::jit
