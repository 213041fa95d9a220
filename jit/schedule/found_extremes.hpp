// The place of an extreme in a long row, as of argmax. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements, with each pair of reductions over one row, the extreme of the elements and then
/// the first or last place of an element that equals the extreme, in blocks: the second reduction
/// reads only blocks whose own extreme is that of the row. The results are the same; rows of fewer
/// than four blocks stay.
[[nodiscard]] Block with_found_extremes(Scheduling& in, const Block& body);

}  // namespace heddle::jit
