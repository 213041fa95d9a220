// Lanes loops with chains of costly functions, taken apart. Pure; any thread.
#pragma once

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// The loop as one loop per link of its longest chain of costly functions, as in log(1 + exp(x)):
/// first exp of all vectors, then log. The values between are in blocks. A processor then computes
/// several vectors at a time; a chain for one vector would fill its window of instructions, and
/// wait for each result. Every element keeps its bits.
[[nodiscard]] Block in_stages(Scheduling& in, const StmtPtr& lanes);

}  // namespace heddle::jit
