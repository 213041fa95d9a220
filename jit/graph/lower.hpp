// Lowers graphs to programs: chooses which nodes are kept in tensors, and makes the statements that
// compute the tensors. Later passes work on programs. Pure; any thread.
#pragma once

#include "jit/graph/state.hpp"

namespace heddle::jit {

/// `graph` must be finished; see Graph::program().
[[nodiscard]] GraphProgram lower_graph(const GraphState& graph);

}  // namespace heddle::jit
