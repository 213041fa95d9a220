// Sums and other reductions of functions that lanes cannot compute, as of the sine of an f32, which
// is computed in f64: compilers make vectors of such functions in plain loops, but not in loops
// that sum. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements of the kernel, with the terms of such reductions in nests and in scratch of
/// their own, where the scratch has at most 256 MiB. The reductions are then of elements in memory,
/// and have the order of these.
[[nodiscard]] Block with_functions_apart(Scheduling& in, const Block& body);

}  // namespace heddle::jit
