// Reading files, for the commands that take a program. Any thread.
#pragma once

#include <string>

namespace heddle::tools {

/// The whole of a file; of standard input for "-". Throws Error: invalid_argument for a directory,
/// not_found for an unreadable file.
[[nodiscard]] std::string contents_of(const std::string& path);

}  // namespace heddle::tools
