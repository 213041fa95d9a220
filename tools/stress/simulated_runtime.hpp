// Random work for the whole tensor runtime in a simulation: hosts that link, schedule, copy, merge,
// donate, finalise, cancel and recover on virtual devices of several kinds; and what memory must
// hold whatever happens (S18, S23, D2, D5 to D8, D10, D13, D15 to D17). One thread.
#pragma once

#include <cstdint>

#include "tools/stress/planted.hpp"
#include "tools/stress/simulated_graph.hpp"

namespace heddle::stress {

/// What is usual for this seed. Tasks throw where the played devices say, not anywhere: it is known
/// then what has not run.
[[nodiscard]] SimulationOptions runtime_options(std::uint64_t seed);

/// Draws a run from options.seed. The report's status names what broke.
[[nodiscard]] GraphReport simulate_runtime(SimulationOptions options,
                                           Planted planted = Planted::nothing);

}  // namespace heddle::stress
