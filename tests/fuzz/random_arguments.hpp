// A random graph and what it is run with. One thread.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "heddle/graph.hpp"
#include "heddle/host_array.hpp"
#include "support/graph_interpreter.hpp"
#include "support/random_graph.hpp"
#include "support/random_program.hpp"
#include "unit/graph/run_graph.hpp"

namespace heddle::jit::testing {

/// One of several numbers that a seed stands for, none of which follows from another.
inline std::uint64_t drawn(std::uint64_t seed, std::uint64_t which) {
  std::mt19937_64 random(seed * 8 + which);
  return random();
}

struct RandomGraph {
  std::uint64_t seed;
  int size;  ///< see random_graph()
  Graph graph;
  std::vector<HostArray> arguments;

  explicit RandomGraph(std::uint64_t from)
      : seed(from),
        size(2 + static_cast<int>(drawn(seed, 1) % 24)),
        graph(random_graph(seed, size)) {
    for (const Node& parameter : graph.parameters())
      arguments.push_back(random_array(parameter.type(), seed + arguments.size()));
  }

  /// Its program, scheduled for a target or not.
  [[nodiscard]] GraphRun fresh_run(bool is_scheduled,
                                   const Target& target = native_target()) const {
    return {graph, arguments, true, is_scheduled ? &target : nullptr};
  }

  /// What its nodes mean, where a schedule cannot change that; else what its loops do.
  [[nodiscard]] std::vector<HostArray> wanted(bool is_scheduled,
                                              const Target& target = native_target()) const {
    if (!is_scheduled || any_order_is_exact(graph)) return interpret(graph, arguments);
    GraphRun run = fresh_run(true, target);
    run.run();
    return run.results();
  }
};

}  // namespace heddle::jit::testing
