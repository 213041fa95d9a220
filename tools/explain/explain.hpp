// `heddle explain`: what becomes of a program on its way to the processor, and how far from the
// machine's limits it runs. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "heddle/backend.hpp"
#include "heddle/graph.hpp"
#include "heddle/program.hpp"

namespace heddle::tools {

struct ExplainOptions {
  bool source = false;  ///< also what goes to the compiler
  bool fast_math = false;
};

/// The program after each stage, what it costs, what bounds it, and the time that it took.
/// Static indices are 0. Throws what compiling and running throw.
[[nodiscard]] std::string explain(const Backend& backend, const Program& program,
                                  const ExplainOptions& options);
/// The same of a finished graph, which comes first.
[[nodiscard]] std::string explain(const Backend& backend, const Graph& graph,
                                  const ExplainOptions& options);

/// The graph of a file, where it is a graph's text and no program's. Throws
/// Error(invalid_argument) "NAME: ..." as Graph::parse() does.
[[nodiscard]] std::optional<Graph> parse_graph(const std::string& name, std::string_view text);

}  // namespace heddle::tools
