// See machine/measure.hpp.
#include "jit/machine/measure.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

namespace heddle::jit {
namespace {

/// The counted repetitions, ascending.
std::array<double, repetitions_min> latest(const std::vector<double>& repetitions) {
  std::array<double, repetitions_min> counted{};
  std::copy_n(repetitions.end() - repetitions_min, repetitions_min, counted.begin());
  std::ranges::sort(counted);
  return counted;
}

}  // namespace

double MeasuredValue::middle() const {
  if (repetitions.size() < repetitions_min) return absent() ? 0 : repetitions.back();
  return latest(repetitions)[repetitions_min / 2];
}

double MeasuredValue::spread() const {
  if (repetitions.size() < repetitions_min)
    return absent() ? 0 : std::numeric_limits<double>::infinity();
  const auto counted = latest(repetitions);
  return (counted.back() - counted.front()) / counted[repetitions_min / 2];
}

bool MeasuredValue::agrees() const { return spread() <= spread_max; }

bool MeasuredMachine::agrees() const { return std::ranges::all_of(values, &MeasuredValue::agrees); }

MachineProfile MeasuredMachine::profile(MachineProfile usual) const {
  for (const MeasuredValue& each : values) {
    if (each.absent()) continue;
    const double bounded =
        std::clamp(std::round(each.middle()), 1.0, static_cast<double>(each.value->most));
    usual.*each.value->value = static_cast<std::int64_t>(bounded);
  }
  return usual;
}

MeasuredMachine measure_machine(const MachineProbe& probe, const MachineClock& clock) {
  MeasuredMachine machine;
  for (const MachineValue& each : machine_values) machine.values.push_back({&each});
  for (std::size_t round = 0; round == 0 || (!machine.agrees() && clock() < measuring_time_max);
       ++round) {
    for (MeasuredValue& each : machine.values) {
      if (round > 0 && each.agrees()) continue;
      if (round > 0 && clock() >= measuring_time_max) break;
      if (const std::optional<double> found = probe(*each.value))
        each.repetitions.push_back(*found);
    }
  }
  return machine;
}

}  // namespace heddle::jit
