// A plain interpreter of graphs, node by node: the reference for their lowering. Slow and obvious
// on purpose. Pure.
#pragma once

#include <vector>

#include "heddle/graph.hpp"
#include "heddle/host_array.hpp"

namespace heddle::jit::testing {

/// Returns the results of a finished graph for the given arguments, followed by the values of its
/// marks. Reductions take their terms in row-major order, from the neutral element;
/// scalar_reference.hpp computes operations and conversions.
[[nodiscard]] std::vector<HostArray> interpret(const Graph& graph,
                                               const std::vector<HostArray>& arguments);

/// True where every order of the graph's sums gives the same bits, and schedules may choose an
/// order: no node that results depend on sums or multiplies floating elements.
[[nodiscard]] bool any_order_is_exact(const Graph& graph);

}  // namespace heddle::jit::testing
