// SimulatedChoice: everything that a simulation draws from its seed: which fiber goes on, how much
// time goes by, and what goes wrong. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <random>
#include <vector>

#include "heddle/simulation.hpp"

namespace heddle::sched {

class SimulatedChoice {
 public:
  explicit SimulatedChoice(const SimulationOptions& options);

  /// Below `bound`, which is at least 1.
  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) noexcept { return random_() % bound; }

  /// The number of an actor, a device or a host, that can be chosen from now on.
  std::size_t add_actor();
  /// The place in `ready`, which is not empty and holds actors, of the one that goes on in this
  /// step.
  [[nodiscard]] std::size_t choose(std::uint64_t step, const std::vector<std::size_t>& ready);
  /// `actor` lets others go on.
  void give_way(std::size_t actor) noexcept;

  /// Whether this fault happens now; counts it.
  [[nodiscard]] bool fault(SimulationFault kind) noexcept;
  /// None happens from here on.
  void end_faults() noexcept { odds_.fill(0); }
  [[nodiscard]] const std::array<std::uint64_t, simulation_faults>& faults() const noexcept {
    return faults_;
  }

 private:
  [[nodiscard]] std::size_t choose_by_priority(std::uint64_t step,
                                               const std::vector<std::size_t>& ready);
  [[nodiscard]] std::size_t choose_in_subset(std::uint64_t step,
                                             const std::vector<std::size_t>& ready);

  std::mt19937_64 random_;
  SimulationPolicy policy_;
  std::array<std::uint64_t, simulation_faults> odds_{};  // one in so many; 0: never
  std::array<std::uint64_t, simulation_faults> faults_{};

  // pct: the higher goes first. Priorities that drop are below all that are drawn.
  std::vector<std::uint64_t> priorities_;
  std::vector<std::uint64_t> drops_;  // steps
  std::uint64_t next_low_ = 0;
  // subset
  std::vector<bool> chosen_;
  std::uint64_t redraw_at_ = 0;
};

}  // namespace heddle::sched
