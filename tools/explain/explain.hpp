// `heddle explain`: the stages of a program's compile, and how far from the machine's limits the
// program runs. One thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "heddle/backend.hpp"
#include "heddle/graph.hpp"
#include "heddle/program.hpp"

namespace heddle::tools {

struct ExplainOptions {
  bool source = false;  ///< also the text given to the compiler
  bool fast_math = false;
};

/// The program after each stage, its cost, its limit, and its measured time. Static indices are 0.
/// Throws the errors of compiling and running.
[[nodiscard]] std::string explain(const Backend& backend, const Program& program,
                                  const ExplainOptions& options);
/// The same for a finished graph; the graph comes first.
[[nodiscard]] std::string explain(const Backend& backend, const Graph& graph,
                                  const ExplainOptions& options);

/// The graph of a file, if the file is a graph's text and not a program's. Throws
/// Error(invalid_argument) "NAME: ..." as Graph::parse() does.
[[nodiscard]] std::optional<Graph> parse_graph(const std::string& name, std::string_view text);

}  // namespace heddle::tools
