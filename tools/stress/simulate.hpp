// Simulated rounds: random graphs, seed after seed, some of them twice. One thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/simulation.hpp"
#include "tools/stress/simulated_graph.hpp"

namespace heddle::stress {

struct SimulateOptions {
  /// Runs one seed. Unset: a graph of tasks; simulate_runtime() runs work for the tensor runtime.
  std::function<GraphReport(std::uint64_t seed)> one{};
  std::uint64_t seed = 1;  ///< the first
  std::uint64_t seeds = 1;
  const std::atomic<bool>* stop = nullptr;  ///< set: the simulation ends after this seed
  /// Receives a progress line now and then.
  std::function<void(std::string_view)> progress{};
};

struct SimulateResult {
  std::uint64_t seeds = 0, steps = 0, repeated = 0;
  std::vector<Seen> seen{};  ///< over all seeds
  std::chrono::duration<double> time{0};
  std::chrono::nanoseconds simulated{0};
  std::array<std::uint64_t, simulation_faults> faults{};
  Status broken{};  ///< of the last seed, with its number
  std::uint64_t last_seed = 0;
  [[nodiscard]] std::string to_string() const;
};

/// Ends early with the first seed that breaks an invariant. One seed in twenty runs twice, and must
/// give the same run.
[[nodiscard]] SimulateResult simulate(const SimulateOptions& options);

}  // namespace heddle::stress
