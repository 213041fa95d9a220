// Takes long float sums in blocks: terms of a block are added to a separate sum, which begins with
// zero and is then added to the whole; long sums of blocks are cut into blocks again. The error
// grows with the terms of a block and the number of blocks, not with all terms (N. Higham, "The
// accuracy of floating point summation", SIAM J. Sci. Comput. 14, 1993: blocked summation). Blocks
// follow from extents alone. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The most terms that a float sum takes in order, and the terms per block of a longer sum.
inline constexpr std::int64_t terms_in_order_max = 1024;
inline constexpr std::int64_t block_terms = 512;

/// The statements, with sums of more than terms_in_order_max terms in blocks: sums in locals
/// (scalars and blocks) that are only added to, in serial loops. A sum stays as it is where its
/// blocks would exceed block_bytes_max.
[[nodiscard]] Block with_sums_in_blocks(Scheduling& in, const Block& body);

}  // namespace heddle::jit
