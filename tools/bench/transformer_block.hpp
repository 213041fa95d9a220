// A block of a transformer, as a graph. One thread.
#pragma once

#include <cstdint>

#include "heddle/graph.hpp"

namespace heddle::bench {

inline constexpr std::int64_t block_tokens = 512, block_width = 768;

/// Norm, attention of 12 heads, norm, two products with gelu between them; both halves add to their
/// input. `x` and the result: [block_tokens, block_width]; the weights are parameters of the graph.
[[nodiscard]] Node transformer_block(const Graph& graph, const Node& x);

}  // namespace heddle::bench
