// The values of a machine profile, and the constants derived from them. Pure; any thread.
#pragma once

#include <cstdint>

#include "heddle/profile.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// One value of a profile, under its name in the file, in `heddle info` and in `heddle tune`.
struct MachineValue {
  const char* name;
  std::int64_t MachineProfile::* value;
  std::int64_t most;  ///< the minimum is 1
  const char* unit;
  const char* meaning;
};
inline constexpr std::int64_t machine_rate_most = 1'000'000'000, machine_ns_most = 1'000'000'000;
inline constexpr MachineValue machine_values[] = {
    {"l2_copy_mb_s", &MachineProfile::l2_copy_mb_s, machine_rate_most, "MB/s",
     "copying within the second-level cache"},
    {"l3_copy_mb_s", &MachineProfile::l3_copy_mb_s, machine_rate_most, "MB/s",
     "copying within the last-level cache"},
    {"memory_copy_mb_s", &MachineProfile::memory_copy_mb_s, machine_rate_most, "MB/s",
     "copying in memory"},
    {"all_copy_mb_s", &MachineProfile::all_copy_mb_s, machine_rate_most, "MB/s",
     "copying in memory, by all processors"},
    {"peak_mflop_s", &MachineProfile::peak_mflop_s, machine_rate_most, "Mflop/s",
     "multiply-adds of f32"},
    {"memory_load_ns", &MachineProfile::memory_load_ns, machine_ns_most, "ns",
     "a load from memory"},
    {"line_transfer_ns", &MachineProfile::line_transfer_ns, machine_ns_most, "ns",
     "a line from another processor"},
    {"part_ns", &MachineProfile::part_ns, machine_ns_most, "ns",
     "a part on another processor, begun and ended"}};

/// The profile of an unmeasured machine, estimated from its instruction set.
[[nodiscard]] MachineProfile usual_profile(Isa isa) noexcept;
/// Throws invalid_argument that names the invalid value and the expected range.
void check(const MachineProfile& profile);

/// The schedules' constants for a machine, scaled from MachineProfile(), the machine on which
/// KernelProfile() was tuned. Scaled by powers of two, so a new measurement rarely changes kernels.
[[nodiscard]] KernelProfile kernels_on(const MachineProfile& machine) noexcept;
/// The scheduler's constants for a machine, scaled likewise.
[[nodiscard]] SchedulerProfile scheduling_on(const MachineProfile& machine) noexcept;

}  // namespace heddle::jit
