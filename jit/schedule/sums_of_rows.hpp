// Sums of a few short rows at positions, as of mean(take(points, corners), 1): the positions first,
// and then the row, element by element. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The nests of the kernel, where at most 24 short rows that are read at nearest positions and
/// reduced are terms of one loop along the row. Every element keeps its order of terms.
[[nodiscard]] Block with_sums_of_rows(Fresh& fresh, const Block& body);

}  // namespace heddle::jit
