// See machine/profile.hpp.
#include "jit/machine/profile.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/status.hpp"

namespace heddle::jit {
namespace {

/// `tuned` times the power of two whose logarithm is nearest to that of `factor`, limited to
/// `least` .. `most`, which are such multiples.
std::int64_t scaled(std::int64_t tuned, double factor, std::int64_t least,
                    std::int64_t most) noexcept {
  const double value = static_cast<double>(tuned) * std::exp2(std::round(std::log2(factor)));
  return static_cast<std::int64_t>(
      std::clamp(value, static_cast<double>(least), static_cast<double>(most)));
}

/// The ratio of a value to the value of the machine on which constants were tuned.
double times_usual(const MachineProfile& machine, std::int64_t MachineProfile::* value) noexcept {
  return static_cast<double>(machine.*value) / static_cast<double>(MachineProfile().*value);
}

}  // namespace

MachineProfile usual_profile(Isa isa) noexcept {
  MachineProfile profile;
  // Two vectors of multiply-adds per cycle, with the processor's widest instructions.
  constexpr std::int64_t per_lane = 7'375;
  const std::int64_t lanes = isa >= Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 4;
  profile.peak_mflop_s = per_lane * lanes;
  return profile;
}

void check(const MachineProfile& profile) {
  for (const MachineValue& each : machine_values) {
    const std::int64_t value = profile.*each.value;
    if (value >= 1 && value <= each.most) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("BackendOptions::machine.{} is {} (expected 1 to {})", each.name, value,
                            each.most));
  }
}

KernelProfile kernels_on(const MachineProfile& machine) noexcept {
  const double load = times_usual(machine, &MachineProfile::memory_load_ns);
  KernelProfile kernels;
  // The number of terms summed during one load from memory.
  kernels.terms_ahead = scaled(kernels.terms_ahead, load, 4, 64);
  // The number of lines copied during one load, which is the number in flight (Little's law).
  kernels.lines_ahead = scaled(
      kernels.lines_ahead, load * times_usual(machine, &MachineProfile::memory_copy_mb_s), 4, 64);
  // The number of bytes copied in a few times the time of beginning and ending a part. A part often
  // loads bytes stored by other processors, hence from the shared cache level.
  kernels.part_bytes = scaled(kernels.part_bytes,
                              times_usual(machine, &MachineProfile::part_ns) *
                                  times_usual(machine, &MachineProfile::l3_copy_mb_s),
                              std::int64_t{16} << 10, std::int64_t{2} << 20);
  return kernels;
}

SchedulerProfile scheduling_on(const MachineProfile& machine) noexcept {
  SchedulerProfile scheduling;
  // The number of slots written during one transfer of a line. More than 8 slots ahead arrive late
  // again (README.md of scheduler/).
  const double slots =
      scheduling.slots_ahead * times_usual(machine, &MachineProfile::line_transfer_ns);
  scheduling.slots_ahead = static_cast<std::uint32_t>(std::clamp(std::round(slots), 1.0, 8.0));
  return scheduling;
}

}  // namespace heddle::jit
