// Long float sums are taken in blocks: terms of a block are added to a sum of its own, which begins
// with zero and is then added to the whole, and blocks of many terms are made of blocks themselves.
// An error grows with the terms of a block and the number of blocks, not with all terms (N. Higham,
// "The accuracy of floating point summation", SIAM J. Sci. Comput. 14, 1993: blocked summation).
// Blocks follow from extents alone. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Terms that a float sum takes one after the other, at most; and those of a block of a longer one.
inline constexpr std::int64_t terms_in_order_max = 1024;
inline constexpr std::int64_t block_terms = 512;

/// The statements with sums of more terms than terms_in_order_max in blocks: those of locals,
/// scalars and blocks, that are only added to in serial loops. It leaves a sum alone where its
/// blocks would exceed block_bytes_max.
[[nodiscard]] Block with_sums_in_blocks(Scheduling& in, const Block& body);

}  // namespace heddle::jit
