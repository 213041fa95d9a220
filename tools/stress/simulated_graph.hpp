// Random graphs of tasks in a simulation: all user actions on devices, drawn from a seed, and the
// invariants under all interleavings (S1, S6, S7, S9, S12, S13, S23). One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "heddle/simulation.hpp"

namespace heddle::stress {

/// The default options of this seed: all faults, and an early end for some seeds.
[[nodiscard]] SimulationOptions graph_options(std::uint64_t seed);

/// A count of observed cases.
struct Seen {
  const char* what;
  std::uint64_t times;
};

struct GraphReport : SimulationReport {
  std::vector<Seen> seen;  ///< the same entries for each seed
};

/// Draws a graph from options.seed and runs it. The report's status names the broken invariant.
[[nodiscard]] GraphReport simulate_graph(SimulationOptions options);

}  // namespace heddle::stress
