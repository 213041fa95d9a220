// Random work for the whole tensor runtime in a simulation: hosts link, schedule, copy, merge,
// donate, finalise, cancel and recover on virtual devices of several kinds; the contents of memory
// are checked under all interleavings (S18, S23, D2, D5 to D8, D10, D13, D15 to D17). One thread.
#pragma once

#include <cstdint>

#include "tools/stress/planted.hpp"
#include "tools/stress/simulated_graph.hpp"

namespace heddle::stress {

/// The default options of this seed. Tasks throw only where the played devices say, so that the set
/// of tasks that did not run is known.
[[nodiscard]] SimulationOptions runtime_options(std::uint64_t seed);

/// Draws a run from options.seed. The report's status names the broken invariant.
[[nodiscard]] GraphReport simulate_runtime(SimulationOptions options,
                                           Planted planted = Planted::nothing);

}  // namespace heddle::stress
