// Estimates the time of scheduled loops from their text, to compare candidates of one program
// before compiling. Pure; any thread.
#pragma once

#include "jit/loop/loop.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// In microseconds, on one processor of usual speed. Steps of innermost loops are bounded by
/// operations, by loads and stores, and by the latency of a chain of sums; memory by its bandwidth.
/// Meaningful only for comparing schedules of one kernel.
[[nodiscard]] double estimated_us(const Loop& scheduled, const Target& target);

}  // namespace heddle::jit
