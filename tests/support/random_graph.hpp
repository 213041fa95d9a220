// Random graphs, for differential tests: small arrays of all dtypes, every kind of node. The seed
// decides everything. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "heddle/graph.hpp"

namespace heddle::jit::testing {

/// A finished graph of some `size` operations, of which 1 to 3 are results.
[[nodiscard]] Graph random_graph(std::uint64_t seed, int size);
/// The same nodes in another graph; gives the results. Parameter k is `parameters[k]`, where that
/// is there, else one of the graph.
[[nodiscard]] std::vector<Node> random_nodes(std::uint64_t seed, int size, const Graph& graph,
                                             std::span<const std::optional<Node>> parameters);

}  // namespace heddle::jit::testing
