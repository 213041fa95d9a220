// The file of what tuning found: one for each program and machine, in the folder of the kernel
// cache, whose rules it is under (cache/kernel_cache_file.hpp). Read strictly: what is not whole,
// or not of this program, machine and version, is not used at all. Any thread, any number of
// processes.
//
//   heddle-tuned 1
//   heddle VERSION
//   program KEY
//   machine STAMP
//   best NUMBER
//   candidate VERDICT ORDER ROUNDS ESTIMATED_US MEDIAN_US RATIO CHOICES     each
//   sum HEX             XXH3-64 of all before it
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

/// Whose choices they are.
struct TunedFor {
  CompileKey program{};  ///< tuning_key()
  /// One line: all of the machine that its choices depend on. Where two differ, so do their files.
  std::string machine{};
};

/// The candidates of a report and the best of them, as text.
[[nodiscard]] std::string to_text(const TunedSchedule& report, const TunedFor& whose);
/// Inverse of to_text() for the same; else what is wrong with the text.
[[nodiscard]] std::variant<TunedSchedule, std::string> parse_tuned(std::string_view text,
                                                                   const TunedFor& whose);

/// What is known of a program here.
struct KnownTuned {
  std::optional<TunedSchedule> report{};  ///< with its file
  std::filesystem::path file{};           ///< where one is kept; empty: nowhere
  /// There is a file, and why it is not used; empty where there is none.
  std::string problem{};
  bool folder_refused = false;  ///< the problem is the folder's, which the kernel cache tells, too
};
/// Of all programs and machines in a folder: the least recently used go first.
inline constexpr std::size_t tuned_files_max = 4096;
/// `folder`: of the kernel cache; empty: there is none. Throws for memory alone.
[[nodiscard]] KnownTuned known_tuned(const std::filesystem::path& folder, const TunedFor& whose);
/// Keeps a report there, in place of the one before; returns its file. Throws Error(unavailable)
/// naming the folder and what is wrong with it.
std::filesystem::path keep_tuned(const std::filesystem::path& folder, const TunedSchedule& report,
                                 const TunedFor& whose);
/// Removes what was kept for all programs; returns how many files that were.
std::size_t forget_tuned(const std::filesystem::path& folder);

}  // namespace heddle::jit
