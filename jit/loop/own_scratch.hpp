// Scratch used by iterations one after the other: iterations that run in parallel need separate
// copies. Pure; any thread.
#pragma once

#include <cstdint>
#include <set>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The most iterations of a loop that are examined one by one, where one reads what another has
/// written.
inline constexpr std::int64_t iterations_examined_max = 64;

/// The scratch buffers whose content no later iteration reads: each statement of the top level that
/// touches such a buffer is a loop that, in every iteration, writes elements before reading them,
/// at the same elements. Parts of such a loop have separate copies.
[[nodiscard]] std::set<BufferId> own_scratch(const Loop& loop);

}  // namespace heddle::jit
