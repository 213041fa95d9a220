// Small texts stored in the folder of the kernel cache, one text per file, under the rules of
// cache/kernel_cache_file.hpp. Any thread, any number of processes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::jit {

struct KeptText {
  std::optional<std::string> text{};  ///< the whole text, if readable
  std::filesystem::path file{};       ///< the path of the file; empty: no folder
  /// The reason why an existing file cannot be used; empty without a file.
  std::string problem{};
  /// The folder caused the problem, which the kernel cache reports too.
  bool folder_refused = false;
};
/// `folder`: of the kernel cache; empty: there is none. A file longer than `bytes_max` counts as
/// damaged. Marks the file as used now. Throws only when memory is exhausted.
[[nodiscard]] KeptText read_kept_text(const std::filesystem::path& folder, const std::string& name,
                                      std::size_t bytes_max);
/// Replaces the stored text atomically; returns the file. `what`: names the text, as the start of a
/// sentence. Throws Error(unavailable) that names the folder and the folder's problem.
std::filesystem::path keep_text(const std::filesystem::path& folder, const std::string& name,
                                std::string_view text, std::string_view what);
/// Removes texts whose names begin with `prefix`, the least recently used first, until `most` are
/// left; returns the number of removed texts. Files that the system refuses to remove stay.
std::size_t remove_kept_texts(const std::filesystem::path& folder, std::string_view prefix,
                              std::size_t most);

}  // namespace heddle::jit
