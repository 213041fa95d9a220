// A plain interpreter of graphs, node by node: the yardstick that their lowering is held to. Slow
// and obvious on purpose. Pure.
#pragma once

#include <vector>

#include "heddle/graph.hpp"
#include "heddle/host_array.hpp"

namespace heddle::jit::testing {

/// The results of a finished graph for these arguments, and then the values of its marks. Terms of
/// reductions are taken in row-major order, from the neutral element; operations and conversions
/// are those of scalar_reference.hpp.
[[nodiscard]] std::vector<HostArray> interpret(const Graph& graph,
                                               const std::vector<HostArray>& arguments);

/// Whether every order of its sums gives the same bits, so that schedules may choose one: none of
/// the nodes that results need sums or multiplies floating elements.
[[nodiscard]] bool any_order_is_exact(const Graph& graph);

}  // namespace heddle::jit::testing
