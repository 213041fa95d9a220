// The file of a machine profile: one file for each processor model, in the folder of the kernel
// cache and under its rules (cache/kernel_cache_file.hpp). Parsed strictly: a file that is
// incomplete, or of another processor, is not used. Any thread, any number of processes.
//
//   heddle-machine 1
//   processor STAMP
//   NAME VALUE          each value of a profile, in the order of machine_values
//   sum HEX             XXH3-64 of all earlier bytes
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "heddle/profile.hpp"
#include "jit/cache/key.hpp"

namespace heddle::jit {

/// A profile as text; `processor` as returned by processor_stamp().
[[nodiscard]] std::string to_text(const MachineProfile& profile, std::string_view processor);
/// Inverse of to_text() for the same processor; otherwise an error text.
[[nodiscard]] std::variant<MachineProfile, std::string> parse_machine(std::string_view text,
                                                                      std::string_view processor);

/// The stored knowledge of this machine.
struct KnownMachine {
  MachineProfile profile{};      ///< usual_profile() unless measured
  std::filesystem::path file{};  ///< the path of a measured profile; empty: no folder
  bool measured = false;
  /// The reason why an existing file is not used; empty without a file.
  std::string problem{};
};
/// `folder`: of the kernel cache; empty: there is none. Throws only when memory is exhausted.
[[nodiscard]] KnownMachine known_machine(const std::filesystem::path& folder,
                                         std::string_view processor = processor_stamp());
/// Stores a profile in place of the earlier one; returns the file. Throws Error(unavailable) that
/// names the folder and the folder's problem.
std::filesystem::path keep_machine(const std::filesystem::path& folder,
                                   const MachineProfile& profile,
                                   std::string_view processor = processor_stamp());

}  // namespace heddle::jit
