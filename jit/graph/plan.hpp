// Chooses which nodes of a graph are kept in tensors; the other nodes are computed at their
// readers. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/graph/state.hpp"

namespace heddle::jit {

/// True if a value at a place follows from one value of each operand.
[[nodiscard]] bool is_pointwise(NodeKind kind) noexcept;

/// How a node is kept.
enum class Keeping : std::uint8_t {
  none,    ///< computed where the node is read
  tensor,  ///< in a tensor; passes may still compute the value at the readers
  memory,  ///< in a tensor; passes must not compute the value at the readers
};

/// By position in the graph. Kept are: results and marks; nodes that are not pointwise; and, of
/// nodes with something to compute, a node that several statements would compute, an operand that a
/// broadcast repeats, and factors and terms that are read repeatedly. Kept in memory are: nodes at
/// a fixed depth of operations, which bounds the size of expressions; and the parts of an array
/// that many statements read, one part each.
[[nodiscard]] std::vector<Keeping> kept_nodes(const GraphState& graph,
                                              const std::vector<bool>& live);

}  // namespace heddle::jit
