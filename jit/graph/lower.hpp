// From graphs to programs: which nodes are kept in tensors, and the statements that make them. All
// that follows is that of programs. Pure; any thread.
#pragma once

#include "jit/graph/state.hpp"

namespace heddle::jit {

/// Of a finished graph; see Graph::program().
[[nodiscard]] GraphProgram lower_graph(const GraphState& graph);

}  // namespace heddle::jit
