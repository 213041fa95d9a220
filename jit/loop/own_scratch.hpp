// Scratch that iterations use one after the other, and that those which run at once need one each
// of. Pure; any thread.
#pragma once

#include <set>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The scratch buffers that nothing is left in for a later iteration: each statement of the top
/// level that touches them is a loop that writes them before it reads them in every iteration, at
/// the same elements. Parts of such a loop have one each.
[[nodiscard]] std::set<BufferId> own_scratch(const Loop& loop);

}  // namespace heddle::jit
