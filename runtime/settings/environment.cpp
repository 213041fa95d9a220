// See runtime/settings/environment.hpp.
#include "runtime/settings/environment.hpp"

#include <fmt/format.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <utility>

#include "heddle/observe.hpp"

namespace heddle::rt {
namespace {

/// Variables that name programs, files or folders. Ignored if the process has rights that its
/// starter lacks (AT_SECURE: set-user-ID, file capabilities).
constexpr std::string_view naming_files[] = {"HEDDLE_CC",
                                             "HEDDLE_CFLAGS",
                                             "HEDDLE_COMPILE_HELPER",
                                             "HEDDLE_CUDA_DRIVER",
                                             "HEDDLE_NVRTC",
                                             "HEDDLE_TEMP_DIR",
                                             "HEDDLE_DUMP_DIR",
                                             "HEDDLE_CACHE_DIR",
                                             "XDG_CACHE_HOME",
                                             "HOME",
                                             "TMPDIR"};

/// The owner of a directory or, for a missing directory, of its nearest existing parent; none if
/// the owner is root or the current user.
std::optional<uid_t> other_owner(std::filesystem::path path) {
  struct stat info{};
  while (stat(path.c_str(), &info) != 0 && path.has_relative_path()) path = path.parent_path();
  if (info.st_uid == 0 || info.st_uid == geteuid()) return std::nullopt;
  return info.st_uid;
}

}  // namespace

std::optional<std::string> get(const char* name) {
  const bool names_files = std::ranges::find(naming_files, name) != std::end(naming_files);
  const char* const value = names_files ? secure_getenv(name) : std::getenv(name);
  if (value == nullptr || *value == '\0') return std::nullopt;
  return std::string(value);
}

void warn_of_unheeded() {
  std::string names;
  for (const std::string_view name : naming_files) {
    if (name.starts_with("HEDDLE_") && std::getenv(name.data()) != nullptr && !get(name.data()))
      names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  if (getauxval(AT_SECURE) != 0 && !names.empty()) {
    log(LogLevel::warn,
        fmt::format("not heeded: {}: this process has rights that whoever started it lacks "
                    "(AT_SECURE), so no variable of the environment names its files",
                    names));
  }
}

UserCacheDir user_cache_dir() {
  constexpr std::pair<const char*, const char*> places[] = {{"XDG_CACHE_HOME", "/heddle"},
                                                            {"HOME", "/.cache/heddle"}};
  for (const auto& [name, below] : places) {
    const auto path = get(name);
    if (!path || !path->starts_with('/')) continue;
    const auto owner = other_owner(*path);
    if (!owner) return {*path + below, {}};
    return {std::nullopt,
            fmt::format("{}='{:.200}' belongs to user {} (expected {}); set HEDDLE_CACHE_DIR, or "
                        "{} to a directory of your own",
                        name, *path, *owner, geteuid(), name),
            true};
  }
  return {std::nullopt,
          "neither HEDDLE_CACHE_DIR nor a home directory is known; set HEDDLE_CACHE_DIR, or HOME "
          "to an absolute path"};
}

}  // namespace heddle::rt
