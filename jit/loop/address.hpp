// Addresses in a buffer: from subscripts to offsets. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// Row-major offset of an element, in elements. Wraps rather than throws: a subscript that could
/// leave 64 bits is out of range and was refused before.
[[nodiscard]] Affine flatten(const ArrayType& type, const std::vector<Affine>& subscripts);

}  // namespace heddle::jit
