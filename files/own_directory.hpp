// Directories of this user's alone: who may write one may run code as this user where libraries are
// loaded from it. Any thread.
#pragma once

#include <sys/stat.h>

#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <string_view>

namespace heddle::files {

/// Empty, or what makes a file or directory another's: its owner, or others that may write it.
[[nodiscard]] std::string foreignness(const struct stat& info);

/// Makes `path` and what is missing above it, each for its owner alone, as the XDG Base Directory
/// Specification asks. Whether it is there.
bool make_private_directories(const std::filesystem::path& path);

/// Puts a file of mode 0600 in the place of what `folder`, made where there is none, has under
/// `name`, which stays as it is for whoever has it open or linked. The path that is given back
/// names this file as long as this user leaves it: others may write neither the folder nor, unless
/// the sticky bit keeps them from its entries, one above it. Throws Error(unavailable) naming
/// folder or file and the reason, with `advice`; then half a file is not left.
std::filesystem::path replace_own_file(const std::filesystem::path& folder, const std::string& name,
                                       std::span<const std::byte> bytes, std::string_view advice);

}  // namespace heddle::files
