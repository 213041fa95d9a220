// What heddle reads of the environment, and what it does not heed there. Any thread, as long as
// nobody sets variables meanwhile.
#pragma once

#include <optional>
#include <string>

namespace heddle::rt {

/// A variable that is set, not empty, and heeded.
[[nodiscard]] std::optional<std::string> get(const char* name);

/// What is set and not heeded is said once: without it a process does something else.
void warn_of_unheeded();

/// Where the cache lies by default.
struct UserCacheDir {
  std::optional<std::string> path;
  std::string absence;  ///< why there is none
  bool is_others = false;
};

/// By the XDG Base Directory Specification; nothing for a user without a home, and nothing in
/// another user's, who could neither use nor remove what is made there.
[[nodiscard]] UserCacheDir user_cache_dir();

}  // namespace heddle::rt
