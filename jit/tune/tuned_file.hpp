// The file of tuning results: one file for each program and machine, in the folder of the kernel
// cache and under its rules (cache/kernel_cache_file.hpp). Parsed strictly: a file that is
// incomplete, or of another program, machine or version, is not used. Any thread, any number of
// processes.
//
//   heddle-tuned 1
//   heddle VERSION
//   program KEY
//   machine STAMP
//   best NUMBER
//   candidate VERDICT ORDER ROUNDS ESTIMATED_US MEDIAN_US RATIO CHOICES     each
//   sum HEX             XXH3-64 of all earlier bytes
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "heddle/tune.hpp"
#include "jit/cache/key.hpp"

namespace heddle::jit {

/// The program and machine to which choices belong.
struct TunedFor {
  CompileKey program{};  ///< tuning_key()
  /// One line: the properties of the machine on which the choices depend. Different machines have
  /// different files.
  std::string machine{};
};

/// The candidates of a report and the best candidate, as text.
[[nodiscard]] std::string to_text(const TunedSchedule& report, const TunedFor& whose);
/// Inverse of to_text() for the same `whose`; otherwise an error text.
[[nodiscard]] std::variant<TunedSchedule, std::string> parse_tuned(std::string_view text,
                                                                   const TunedFor& whose);

/// The stored tuning result of a program.
struct KnownTuned {
  std::optional<TunedSchedule> report{};  ///< with the path of its file
  std::filesystem::path file{};           ///< the path of the file; empty: no folder
  /// The reason why an existing file is not used; empty without a file.
  std::string problem{};
  /// the folder caused the problem, which the kernel cache reports too
  bool folder_refused = false;
};
/// The most files in a folder, for all programs and machines; the least recently used are removed
/// first.
inline constexpr std::size_t tuned_files_max = 4096;
/// `folder`: of the kernel cache; empty: there is none. Throws only when memory is exhausted.
[[nodiscard]] KnownTuned known_tuned(const std::filesystem::path& folder, const TunedFor& whose);
/// Stores a report in place of the earlier one; returns the file. Throws Error(unavailable) that
/// names the folder and the folder's problem.
std::filesystem::path keep_tuned(const std::filesystem::path& folder, const TunedSchedule& report,
                                 const TunedFor& whose);
/// Removes the results of all programs; returns the number of removed files.
std::size_t forget_tuned(const std::filesystem::path& folder);

}  // namespace heddle::jit
