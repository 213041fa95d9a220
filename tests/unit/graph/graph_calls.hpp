// Calls on graphs, as tests make them: what they give of some arrays, and how they are refused.
#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <source_location>
#include <string>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "unit/graph/run_graph.hpp"

namespace heddle::jit::testing {

[[nodiscard]] inline std::vector<double> elements_of(const HostArray& array) {
  std::vector<double> values;
  for (std::int64_t k = 0; k < array.num_elements(); ++k) values.push_back(array.at(k));
  return values;
}

using Nodes = std::vector<Node>;

struct Given {
  ArrayType type;
  std::vector<double> values;
};

/// What `make` gives of these arrays.
[[nodiscard]] inline HostArray made_of(const std::vector<Given>& arrays,
                                       const std::function<Node(const Nodes&)>& make) {
  const Graph g("made");
  Nodes nodes;
  std::vector<HostArray> arguments;
  for (const Given& each : arrays) {
    nodes.push_back(g.parameter("p", each.type));
    arguments.push_back(HostArray::fill(each.type, each.values));
  }
  g.finish({make(nodes)});
  return run_graph(g, arguments)[0];
}

[[nodiscard]] inline std::vector<double> result_of(const std::vector<Given>& arrays,
                                                   const std::function<Node(const Nodes&)>& make) {
  return elements_of(made_of(arrays, make));
}

/// What the call on a graph and its 'x' f32[4,3] is told, or "accepted".
[[nodiscard]] inline std::string refused(
    const std::function<Node(const Graph&, const Node&)>& make,
    std::source_location where = std::source_location::current()) {
  const Graph g("refused");
  const Node x = g.parameter("x", {DType::f32, {4, 3}}, where);
  try {
    static_cast<void>(make(g, x));
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    return std::string(e.status().message());
  }
  return "accepted";
}

}  // namespace heddle::jit::testing
