// Measures a machine: each value several times, until the repetitions agree or the time is over.
// One thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "heddle/profile.hpp"
#include "jit/machine/profile.hpp"

namespace heddle::jit {

/// The number of latest repetitions that count, and their largest relative spread to agree.
inline constexpr std::size_t repetitions_min = 3;
inline constexpr double spread_max = 0.2;
inline constexpr std::chrono::milliseconds measuring_time_max{4'200};

/// A value and its repetitions, in order, in the value's unit.
struct MeasuredValue {
  const MachineValue* value = nullptr;
  std::vector<double> repetitions{};

  /// True if the value cannot be measured here; some values need two processors.
  [[nodiscard]] bool absent() const noexcept { return repetitions.empty(); }
  /// The median of the counted repetitions.
  [[nodiscard]] double middle() const;
  /// The range of the counted repetitions, relative to the median.
  [[nodiscard]] double spread() const;
  /// True if there are enough finite repetitions within spread_max, or if the value is absent.
  [[nodiscard]] bool agrees() const;
};

struct MeasuredMachine {
  std::vector<MeasuredValue> values;  ///< in the order of machine_values
  [[nodiscard]] bool agrees() const;
  /// `usual` with the measured values, each within its bounds.
  [[nodiscard]] MachineProfile profile(MachineProfile usual) const;
};

/// Measures a value once; nullopt where the machine cannot measure the value, infinite where the
/// measurement failed this time. May throw any exception.
using MachineProbe = std::function<std::optional<double>(const MachineValue&)>;
/// The time since the start.
using MachineClock = std::function<std::chrono::nanoseconds()>;

/// Measures the values in turn, hence a disturbance affects one repetition per value. Values that
/// do not agree yet are repeated until they agree, or until measuring_time_max has passed.
[[nodiscard]] MeasuredMachine measure_machine(const MachineProbe& probe, const MachineClock& clock);

}  // namespace heddle::jit
