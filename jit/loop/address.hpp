// Addresses in a buffer: from subscripts to offsets. Pure functions; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// True if a single subscript counts the elements of a buffer of several axes, in row-major order:
/// a flat subscript, which only loads may have.
[[nodiscard]] inline bool is_flat(const Dims& dims, const std::vector<Affine>& subscripts) {
  return subscripts.size() == 1 && dims.size() > 1;
}

/// Row-major offset of an element, in elements. Wraps rather than throws: a subscript that could
/// leave 64 bits is out of range and was refused before.
[[nodiscard]] Affine flatten(const ArrayType& type, const std::vector<Affine>& subscripts);

}  // namespace heddle::jit
