// A random graph and what it is run with. One thread.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "heddle/graph.hpp"
#include "heddle/host_array.hpp"
#include "support/random_graph.hpp"
#include "support/random_program.hpp"

namespace heddle::jit::testing {

/// One of several numbers that a seed stands for, none of which follows from another.
inline std::uint64_t drawn(std::uint64_t seed, std::uint64_t which) {
  std::mt19937_64 random(seed * 8 + which);
  return random();
}

struct RandomGraph {
  std::uint64_t seed;
  Graph graph;
  std::vector<HostArray> arguments;

  explicit RandomGraph(std::uint64_t from)
      : seed(from), graph(random_graph(seed, 2 + static_cast<int>(drawn(seed, 1) % 24))) {
    for (const Node& parameter : graph.parameters())
      arguments.push_back(random_array(parameter.type(), seed + arguments.size()));
  }
};

}  // namespace heddle::jit::testing
