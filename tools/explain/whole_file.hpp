// Files, as the commands that take a program read them. Any thread.
#pragma once

#include <string>

namespace heddle::tools {

/// The whole of a file; of standard input for "-". Throws Error: invalid_argument for a directory,
/// not_found for what cannot be read.
[[nodiscard]] std::string contents_of(const std::string& path);

}  // namespace heddle::tools
