// Positions that are affine in the loop variables, as of take(x, iota + 1), become subscripts.
// Loops are cut at the ends of the position's range, and into periods where positions are quotients
// or remainders, as of take(x, iota / 2). Pure; any thread.
#pragma once

#include "jit/loop/loop.hpp"
#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The middle, the edges and the corners of an image.
inline constexpr int settled_parts_max = 9;

/// The statements with settled positions, in the same order of execution. A statement becomes
/// `parts` copies at most, one for each part of its loops; inner loops are cut first.
[[nodiscard]] Block with_settled_positions(Fresh& fresh, const Block& body, int parts);

}  // namespace heddle::jit
