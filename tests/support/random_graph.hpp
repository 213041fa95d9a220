// Random graphs, for differential tests: small arrays of any dtype, every kind of node. The seed
// decides everything. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heddle/graph.hpp"

namespace heddle::jit::testing {

/// A finished graph of about `size` operations with 1 to 3 results.
[[nodiscard]] Graph random_graph(std::uint64_t seed, int size);
/// Adds the same nodes to a second graph and returns the results. Parameter k is `parameters[k]`
/// where present, otherwise a parameter of the graph.
[[nodiscard]] std::vector<Node> random_nodes(std::uint64_t seed, int size, const Graph& graph,
                                             std::span<const std::optional<Node>> parameters);

}  // namespace heddle::jit::testing
