// Small texts kept in the folder of the kernel cache, one a file, under the rules of
// cache/kernel_cache_file.hpp. Any thread, any number of processes.
#pragma once

#include <cstddef>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>

namespace heddle::jit {

struct KeptText {
  std::optional<std::string> text{};  ///< all of it, if it can be read
  std::filesystem::path file{};       ///< where it is kept; empty: nowhere
  /// There is a file, and why it cannot be used; empty where there is none.
  std::string problem{};
  /// The problem is the folder's, which the kernel cache tells, too.
  bool folder_refused = false;
};
/// `folder`: of the kernel cache; empty: there is none. Longer files than `bytes_max` are damaged.
/// The file counts as used now. Throws for memory alone.
[[nodiscard]] KeptText read_kept_text(const std::filesystem::path& folder, const std::string& name,
                                      std::size_t bytes_max);
/// Puts it in the place of what was kept, all at once; returns its file. `what`: it, as the start
/// of a sentence. Throws Error(unavailable) naming the folder and what is wrong with it.
std::filesystem::path keep_text(const std::filesystem::path& folder, const std::string& name,
                                std::string_view text, std::string_view what);
/// Removes those texts whose names begin with `prefix`, the least recently used first, until `most`
/// are left; returns how many went. What the system will not remove stays.
std::size_t remove_kept_texts(const std::filesystem::path& folder, std::string_view prefix,
                              std::size_t most);

}  // namespace heddle::jit
