// Transposes of square blocks in registers. Pure; any thread.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "jit/vector/target.hpp"

namespace heddle::jit {

/// An instruction that combines lanes of two vectors into a vector. AT&T syntax: %0 is the result,
/// %1 and %2 are the operands.
struct LaneShuffle {
  std::string instruction;
  std::size_t first = 0, second = 0;
};

/// Transposes as many vectors of `type` as a vector has lanes. Values 0, 1, ... are the rows in
/// order, every shuffle makes the next value, and the last values are the columns in order. Empty:
/// the target has no instructions for the transpose.
[[nodiscard]] std::vector<LaneShuffle> lane_transpose(DType type, const Target& target);

}  // namespace heddle::jit
