// Which nodes of a graph are kept in tensors: the others are computed where they are read. Pure;
// any thread.
#pragma once

#include <cstdint>
#include <vector>

#include "jit/graph/state.hpp"

namespace heddle::jit {

/// Whether the value at a place follows from values of operands at one place each.
[[nodiscard]] bool is_pointwise(NodeKind kind) noexcept;

/// How a node is kept.
enum class Keeping : std::uint8_t {
  none,    ///< computed where it is read
  tensor,  ///< in a tensor, which passes may yet compute where it is read
  memory,  ///< in a tensor that none computes there
};

/// By position in the graph. Kept are: what results and marks are; what is no pointwise kind; and,
/// where there is something to compute, what several statements would compute, what is read for
/// each of the places that it is broadcast to, factors and terms that are read again and again, and
/// each so many operations deep that expressions stay small: in memory; and there too the parts of
/// an array that many statements read, a part each.
[[nodiscard]] std::vector<Keeping> kept_nodes(const GraphState& graph,
                                              const std::vector<bool>& live);

}  // namespace heddle::jit
