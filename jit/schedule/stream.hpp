// Chooses the stores that bypass the caches (non-temporal): fetching lines that are overwritten
// whole costs a third of the memory's bandwidth. Pure; any thread.
#pragma once

#include "jit/lower/lower.hpp"
#include "jit/vector/lanes.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// Makes vector stores bypass the caches where they fill an output that the kernel does not read
/// and no cache would hold. `plan` is the kernel's plan, before and after.
void stream_outputs(Lowered& lowered, const Target& target, const LanePlan& plan);

}  // namespace heddle::jit
