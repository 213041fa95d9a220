// Transposes in nests of their own: arrays in pieces (lower/pieces.hpp) are read by loops beside
// each other in one outer loop, and a transpose among them has a schedule only alone.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements of the kernel, with a nest for each of the innermost loops where one of these
/// nests is a transpose, and their order does not matter.
[[nodiscard]] Block with_transposes_apart(Scheduling& in, const Block& body);

}  // namespace heddle::jit
