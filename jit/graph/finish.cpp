// Graph::finish(): checks and records the results of a graph.
#include <fmt/format.h>

#include "heddle/status.hpp"
#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"

namespace heddle::jit {

void finish_graph(GraphState& graph, std::span<const Node> results,
                  const std::function<std::string(std::size_t)>& name_of,
                  std::source_location where) {
  if (graph.finished) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("graph '{}' is finished already{}", graph.name, at(where)));
  }
  if (results.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("graph '{}' is finished without a result, and so computes nothing; "
                            "list what it gives{}",
                            graph.name, at(where)));
  }
  for (std::size_t k = 0; k < results.size(); ++k) {
    const auto& owner = Inside::of(results[k]);
    if (owner.get() == &graph) continue;
    throw Error(
        ErrorCode::invalid_argument,
        owner == nullptr
            ? fmt::format("{} of graph '{}' is a node of no graph (one that was only "
                          "declared){}",
                          name_of(k), graph.name, at(where))
            : fmt::format("{} of graph '{}' is {} of graph '{}'; make it in this one{}", name_of(k),
                          graph.name, owner->show(id_of(results[k])), owner->name, at(where)));
  }
  for (const Node& result : results) graph.results.push_back(id_of(result));
  graph.finished = true;
}

}  // namespace heddle::jit
