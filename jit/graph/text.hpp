// The text of graphs: printed, parsed and hashed, as that of loops is. Pure; any thread.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "jit/graph/state.hpp"

namespace heddle::jit {

/// Of a finished graph: its parameters, then what results and marks need, in the order of making.
/// `names`: those of parameters and scopes, as comments.
[[nodiscard]] std::string print_graph(const GraphState& graph, bool names);
/// Throws invalid_argument with line, column, what was expected and what was found.
[[nodiscard]] std::shared_ptr<GraphState> parse_graph(std::string_view text, std::string name);
/// 128-bit BLAKE2b of the text without names, as 32 hex digits.
[[nodiscard]] std::string hash_graph(const GraphState& graph);

}  // namespace heddle::jit
