// The time of scheduled loops, estimated from their text: what candidates of one program are
// compared by before any of them is compiled. Pure; any thread.
#pragma once

#include "jit/loop/loop.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// In microseconds, on one processor of usual speed. Steps of innermost loops are bounded by
/// operations, by loads and stores, and by the latency of a chain of sums; memory by its bandwidth.
/// Good for comparing schedules of one kernel, and for nothing else.
[[nodiscard]] double estimated_us(const Loop& scheduled, const Target& target);

}  // namespace heddle::jit
