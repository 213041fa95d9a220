// Measuring a machine: each value several times, until its repetitions agree or the time is over.
// One thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <vector>

#include "heddle/profile.hpp"
#include "jit/machine/profile.hpp"

namespace heddle::jit {

/// The latest repetitions of a value that count, and how far they may be apart to agree.
inline constexpr std::size_t repetitions_min = 3;
inline constexpr double spread_max = 0.2;
inline constexpr std::chrono::milliseconds measuring_time_max{4'200};

/// A value and its repetitions, in its unit, in order.
struct MeasuredValue {
  const MachineValue* value = nullptr;
  std::vector<double> repetitions{};

  /// It cannot be measured here, as some take two processors.
  [[nodiscard]] bool absent() const noexcept { return repetitions.empty(); }
  /// Of the latest repetitions that count: the one in the middle.
  [[nodiscard]] double middle() const;
  /// Of the same: from the least to the largest, as a part of the middle.
  [[nodiscard]] double spread() const;
  /// Whether there are enough repetitions, finite, and no further apart than spread_max; or there
  /// is nothing to agree.
  [[nodiscard]] bool agrees() const;
};

struct MeasuredMachine {
  std::vector<MeasuredValue> values;  ///< in the order of machine_values
  [[nodiscard]] bool agrees() const;
  /// `usual` with the values that could be measured, each within its bounds.
  [[nodiscard]] MachineProfile profile(MachineProfile usual) const;
};

/// Measures a value once; nothing where that cannot be done on this machine, and infinite where it
/// could not be done now. Throws what it likes.
using MachineProbe = std::function<std::optional<double>(const MachineValue&)>;
/// Time that has passed since all began.
using MachineClock = std::function<std::chrono::nanoseconds()>;

/// All values in turn, so that what disturbs for a while disturbs one repetition of each. Those
/// that do not agree yet are repeated until they do, or until measuring_time_max has passed.
[[nodiscard]] MeasuredMachine measure_machine(const MachineProbe& probe, const MachineClock& clock);

}  // namespace heddle::jit
