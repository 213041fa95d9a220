// Chooses which nodes of a graph are kept in tensors; the other nodes are computed at their
// readers. Pure; any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/graph/state.hpp"

namespace heddle::jit {

/// True if each element of the node is computed from one element of each operand.
[[nodiscard]] bool is_pointwise(NodeKind kind) noexcept;

/// How a node is kept.
enum class Keeping : std::uint8_t {
  none,    ///< computed where the node is read
  tensor,  ///< in a tensor; passes may still compute the value at the readers
  memory,  ///< in a tensor; passes must not compute the value at the readers
};

/// How each node is kept, by position in the graph. Kept in tensors are: results and marks; nodes
/// that are not pointwise; operands of gathers; and, among nodes whose values are computed, nodes
/// that would be computed by several statements or at several places of one statement, operands
/// that a broadcast repeats, operands that a reduction reads in two directions, as x *
/// transpose(y), and operands whose elements a statement reads repeatedly, as in a contraction.
/// Kept in memory are: nodes for which the user asked; nodes at a fixed depth of operations, which
/// bounds the size of expressions; and the parts of an array, if many statements read one part
/// each.
[[nodiscard]] std::vector<Keeping> kept_nodes(const GraphState& graph,
                                              const std::vector<bool>& live);

}  // namespace heddle::jit
