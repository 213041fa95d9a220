// A random graph and what it is run with. One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/graph.hpp"
#include "heddle/host_array.hpp"
#include "support/random_graph.hpp"
#include "support/random_program.hpp"

namespace heddle::jit::testing {

struct RandomGraph {
  std::uint64_t seed;
  Graph graph;
  std::vector<HostArray> arguments;

  explicit RandomGraph(std::uint64_t from)
      : seed(from), graph(random_graph(seed, 2 + static_cast<int>(seed % 24))) {
    for (const Node& parameter : graph.parameters())
      arguments.push_back(random_array(parameter.type(), seed + arguments.size()));
  }
};

}  // namespace heddle::jit::testing
