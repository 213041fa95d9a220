// SimulatedChoice: every value drawn from the seed: the fiber to continue, the passing of time, and
// faults. One thread.
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

  /// A number below `bound`, which is at least 1.
  [[nodiscard]] std::uint64_t draw(std::uint64_t bound) noexcept { return random_() % bound; }

  /// Adds an actor, a device or a host, that can be chosen from now on; returns its number.
  std::size_t add_actor();
  /// Returns the index in `ready` of the actor that continues in this step; `ready` holds actors
  /// and is not empty.
  [[nodiscard]] std::size_t choose(std::uint64_t step, const std::vector<std::size_t>& ready);
  /// `actor` lets other actors continue.
  void give_way(std::size_t actor) noexcept;

  /// Returns whether the fault happens now; counts the fault.
  [[nodiscard]] bool fault(SimulationFault kind) noexcept;
  /// No fault happens after this call.
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
  std::array<std::uint64_t, simulation_faults> odds_{};  // odds of 1 in this number; 0: never
  std::array<std::uint64_t, simulation_faults> faults_{};

  // For pct: the higher priority goes first. Dropped priorities are below all drawn priorities.
  std::vector<std::uint64_t> priorities_;
  std::vector<std::uint64_t> drops_;  // steps
  std::uint64_t next_low_ = 0;
  // For subset.
  std::vector<bool> chosen_;
  std::uint64_t redraw_at_ = 0;
};

}  // namespace heddle::sched
