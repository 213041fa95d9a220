// Values of a machine profile, and the constants that follow from them. Pure; any thread.
#pragma once

#include <cstdint>

#include "heddle/profile.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// One value of a profile: as its file, `heddle info` and `heddle tune` name it.
struct MachineValue {
  const char* name;
  std::int64_t MachineProfile::* value;
  std::int64_t most;  ///< the least is 1
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

/// The profile of a machine that nobody measured, as far as its instructions tell.
[[nodiscard]] MachineProfile usual_profile(Isa isa) noexcept;
/// Throws invalid_argument naming the value that is none, and what was expected.
void check(const MachineProfile& profile);

/// What schedules take from the machine: in proportion to the machine that KernelProfile() was
/// tuned on, which is MachineProfile(). In powers of two, so that measuring again seldom makes
/// other kernels.
[[nodiscard]] KernelProfile kernels_on(const MachineProfile& machine) noexcept;
/// What the scheduler takes from the machine, in the same way.
[[nodiscard]] SchedulerProfile scheduling_on(const MachineProfile& machine) noexcept;

}  // namespace heddle::jit
