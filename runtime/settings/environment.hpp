// The only reader of environment variables, and the variables that are ignored. Any thread, while
// no thread sets variables.
#pragma once

#include <optional>
#include <string>

namespace heddle::rt {

/// The value of a variable that is set, not empty, and not ignored.
[[nodiscard]] std::optional<std::string> get(const char* name);

/// Logs the ignored variables, once: the process behaves differently without them.
void warn_of_unheeded();

/// The default directory of the cache.
struct UserCacheDir {
  std::optional<std::string> path;
  std::string absence;  ///< reason for the absence
  bool is_others = false;
};

/// Follows the XDG Base Directory Specification. No directory for a user without a home, or in
/// another user's directory, where that user could neither use nor remove the files.
[[nodiscard]] UserCacheDir user_cache_dir();

}  // namespace heddle::rt
