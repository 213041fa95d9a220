// Reductions of functions that lanes cannot compute, as of the sine of an f32, which is computed in
// f64: compilers make vectors of such functions in plain loops, but not in loops that sum. And
// reductions of x(i, k) beside x(k, i), of which one is read across. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The statements of the kernel, with such functions, and what is read across, in nests and in
/// scratch of their own: at most 64 MiB, and twice the bytes that they load. The reductions are
/// then of elements in memory, and have the order of these.
[[nodiscard]] Block with_functions_apart(Scheduling& in, const Block& body);

}  // namespace heddle::jit
