// Which stores pass the caches by (non-temporal): fetching lines that are overwritten whole costs a
// third of the memory's bandwidth. Pure; any thread.
#pragma once

#include "jit/lower/lower.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Vector stores that fill an output which the kernel does not read, and which no cache would hold,
/// pass the caches by. `plan` is that of the kernel, before and after.
void stream_outputs(Lowered& lowered, const Target& target, const LanePlan& plan);

}  // namespace heddle::jit
