// Indices in 32 bits beside elements of 32 bits, as of argmax and of masks made of iota: vectors
// then hold as many indices as elements. Pure; any thread.
#pragma once

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The statements, with conversions of indices to f32, comparisons of indices, and the least and
/// greatest indices of a loop computed in i32, where all values fit and no other value has 64 bits.
[[nodiscard]] Block with_narrowed_indices(const Block& body);

}  // namespace heddle::jit
