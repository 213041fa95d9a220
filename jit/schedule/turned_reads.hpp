// Arrays that are read across the written memory by several nests, or for a chain of functions:
// turned once, so that the nests are elementwise code. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The nests of the kernel, with the turned array in scratch where two nests or more read it, or
/// where one function's result is another's argument, and the array is no larger than a part of
/// the second-level cache. Functions all of whose operands are read across are computed where the
/// operands lie, and turned last. The results are the same.
[[nodiscard]] Block with_turned_reads(Scheduling& in, const Block& body);

}  // namespace heddle::jit
