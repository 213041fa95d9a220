// Random graphs of tasks in a simulation: everything that users do to devices, drawn from a seed,
// and what must hold whatever happens (S1, S6, S7, S9, S12, S13, S23). One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/simulation.hpp"

namespace heddle::stress {

/// What is usual for this seed: all faults, ending early in some.
[[nodiscard]] SimulationOptions graph_options(std::uint64_t seed);

/// How often something was seen.
struct Seen {
  const char* what;
  std::uint64_t times;
};

struct GraphReport : SimulationReport {
  std::vector<Seen> seen;  ///< the same things for each seed
};

/// Draws a graph from options.seed and runs it. The report's status names what broke.
[[nodiscard]] GraphReport simulate_graph(SimulationOptions options);

}  // namespace heddle::stress
