// The text form of graphs: printed, parsed and hashed, like the text of loops. Pure; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "jit/graph/state.hpp"

namespace heddle::jit {

/// `graph` must be finished. Prints the parameters, then the nodes that results and marks need, in
/// creation order. `names`: prints the names of parameters and scopes, as comments.
[[nodiscard]] std::string print_graph(const GraphState& graph, bool names);
/// Throws invalid_argument with line, column, and the expected and the found text.
[[nodiscard]] std::shared_ptr<GraphState> parse_graph(std::string_view text, std::string name);
/// 128-bit BLAKE2b of the text without names, as 32 hex digits.
[[nodiscard]] std::string hash_graph(const GraphState& graph);

}  // namespace heddle::jit
