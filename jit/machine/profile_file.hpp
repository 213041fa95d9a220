// The file of a machine profile: one for each processor model, in the folder of the kernel cache,
// whose rules it is under (cache/kernel_cache_file.hpp). Read strictly: what is not whole, or not
// this processor's, is not used at all. Any thread, any number of processes.
//
//   heddle-machine 1
//   processor STAMP
//   NAME VALUE          each value of a profile, in the order of machine_values
//   sum HEX             XXH3-64 of all before it
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <variant>

#include "heddle/profile.hpp"
#include "jit/cache/key.hpp"

namespace heddle::jit {

/// A profile as text; `processor` as processor_stamp() tells one.
[[nodiscard]] std::string to_text(const MachineProfile& profile, std::string_view processor);
/// Inverse of to_text() for the same processor; else what is wrong with the text.
[[nodiscard]] std::variant<MachineProfile, std::string> parse_machine(std::string_view text,
                                                                      std::string_view processor);

/// What is known of this machine.
struct KnownMachine {
  MachineProfile profile{};      ///< usual_profile() unless it was measured
  std::filesystem::path file{};  ///< where a measured one is kept; empty: nowhere
  bool measured = false;
  /// There is a file, and why it is not used; empty where there is none.
  std::string problem{};
};
/// `folder`: of the kernel cache; empty: there is none. Throws for memory alone.
[[nodiscard]] KnownMachine known_machine(const std::filesystem::path& folder,
                                         std::string_view processor = processor_stamp());
/// Keeps a profile there, in place of the one before; returns its file. Throws Error(unavailable)
/// naming the folder and what is wrong with it.
std::filesystem::path keep_machine(const std::filesystem::path& folder,
                                   const MachineProfile& profile,
                                   std::string_view processor = processor_stamp());

}  // namespace heddle::jit
