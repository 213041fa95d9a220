// Cost: the operations and bytes of a kernel's loops, counted from their text. Pure; any thread.
#pragma once

#include <cstdint>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The counts saturate.
struct LoopCost {
  std::uint64_t operations = 0;  ///< arithmetic on elements
  std::uint64_t bytes_read = 0, bytes_written = 0;
};
/// Bodies of computed positions count as if they ran; hints do not count.
[[nodiscard]] LoopCost cost_of(const Loop& loop);
/// The cost of a statement of `loop`.
[[nodiscard]] LoopCost cost_of(const Loop& loop, const StmtPtr& stmt);

}  // namespace heddle::jit
