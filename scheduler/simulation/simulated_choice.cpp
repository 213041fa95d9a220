// Policies and faults of simulations.
#include "scheduler/simulation/simulated_choice.hpp"

#include <algorithm>

#include "scheduler/tuning.hpp"

namespace heddle::sched {
namespace {
constexpr std::uint64_t lowest_drawn = std::uint64_t{1} << 62;
}

SimulatedChoice::SimulatedChoice(const SimulationOptions& options) : random_(options.seed) {
  const auto drawn = static_cast<SimulationPolicy>(draw(3));
  policy_ = options.policy.value_or(drawn);
  for (std::size_t k = 0; k < simulation_faults; ++k) {
    // Most runs leave most kinds of faults out: one fault often hides another (FoundationDB's
    // BUGGIFY, and swarm testing, Groce et al., ISSTA 2012).
    const bool active = draw(3) == 0;
    const std::uint64_t odds = std::uint64_t{2} << draw(6);
    if (active && options.faults[k]) odds_[k] = odds;
  }
  const std::uint64_t length = tuning::pct_steps >> draw(7);
  for (int k = 0; k < tuning::pct_drops; ++k) drops_.push_back(draw(length));
  next_low_ = lowest_drawn;
}

std::size_t SimulatedChoice::add_actor() {
  priorities_.push_back(lowest_drawn + draw(lowest_drawn));
  chosen_.push_back(draw(2) == 0);
  return priorities_.size() - 1;
}

void SimulatedChoice::give_way(std::size_t actor) noexcept { priorities_[actor] = --next_low_; }

std::size_t SimulatedChoice::choose(std::uint64_t step, const std::vector<std::size_t>& ready) {
  switch (policy_) {
    case SimulationPolicy::pct:
      return choose_by_priority(step, ready);
    case SimulationPolicy::subset:
      return choose_in_subset(step, ready);
    case SimulationPolicy::uniform:
      break;
  }
  return draw(ready.size());
}

std::size_t SimulatedChoice::choose_by_priority(std::uint64_t step,
                                                const std::vector<std::size_t>& ready) {
  const auto first = [&] {
    return std::ranges::max_element(
        ready, [&](std::size_t a, std::size_t b) { return priorities_[a] < priorities_[b]; });
  };
  auto at = first();
  if (std::ranges::find(drops_, step) != drops_.end()) {
    give_way(*at);
    at = first();
  }
  return static_cast<std::size_t>(at - ready.begin());
}

std::size_t SimulatedChoice::choose_in_subset(std::uint64_t step,
                                              const std::vector<std::size_t>& ready) {
  if (step >= redraw_at_) {
    for (std::size_t k = 0; k < chosen_.size(); ++k) chosen_[k] = draw(3) == 0;
    redraw_at_ = step + 1 + draw(tuning::subset_steps);
  }
  std::vector<std::size_t> places;
  for (std::size_t k = 0; k < ready.size(); ++k) {
    if (chosen_[ready[k]]) places.push_back(k);
  }
  return places.empty() ? draw(ready.size()) : places[draw(places.size())];
}

bool SimulatedChoice::fault(SimulationFault kind) noexcept {
  const auto k = static_cast<std::size_t>(kind);
  if (odds_[k] == 0 || draw(odds_[k]) != 0) return false;
  ++faults_[k];
  return true;
}

}  // namespace heddle::sched
