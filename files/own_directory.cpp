// See own_directory.hpp.
#include "files/own_directory.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "files/descriptor.hpp"
#include "heddle/status.hpp"

namespace heddle::files {
namespace fs = std::filesystem;
namespace {

/// Empty, or why others could put another entry in the place of ours in this directory.
std::string foreignness_above(const struct stat& info, const fs::path& path) {
  if (info.st_uid != 0 && info.st_uid != geteuid()) {
    return fmt::format("'{}' above it belongs to user {} (expected {} or root)", path.string(),
                       info.st_uid, geteuid());
  }
  if ((info.st_mode & 022) != 0 && (info.st_mode & S_ISVTX) == 0) {
    return fmt::format("others may write '{}' above it (mode {:03o}; expected 755)", path.string(),
                       info.st_mode & 0777);
  }
  return {};
}

/// Opens a directory whose path has no links, step by step from the root. None and `why` where it,
/// or its place, is another's.
FileDescriptor open_own_directory(const fs::path& path, std::string& why) {
  constexpr int flags = O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  fs::path above = path.root_path();
  FileDescriptor directory(open(above.c_str(), flags));
  struct stat info{};
  for (const fs::path& part : path.relative_path()) {
    if (directory && fstat(directory.get(), &info) == 0) {
      why = foreignness_above(info, above);
      if (!why.empty()) return {};
      directory = FileDescriptor(openat(directory.get(), part.c_str(), flags));
      above /= part;
    }
  }
  if (!directory || fstat(directory.get(), &info) != 0) {
    why = errno_text(errno);
    return {};
  }
  why = foreignness(info);
  return why.empty() ? std::move(directory) : FileDescriptor();
}

}  // namespace

std::string foreignness(const struct stat& info) {
  if (info.st_uid != geteuid())
    return fmt::format("it belongs to user {} (expected {})", info.st_uid, geteuid());
  if ((info.st_mode & 022) != 0) {
    return fmt::format("others may write it (mode {:03o}; expected {})", info.st_mode & 0777,
                       S_ISDIR(info.st_mode) ? "700" : "600");
  }
  return {};
}

bool make_private_directories(const fs::path& path) {
  if (mkdir(path.c_str(), 0700) == 0 || errno == EEXIST) return true;
  if (errno != ENOENT || !path.has_relative_path() || path.parent_path() == path) return false;
  if (!make_private_directories(path.parent_path())) return false;
  return mkdir(path.c_str(), 0700) == 0 || errno == EEXIST;
}

fs::path replace_own_file(const fs::path& folder, const std::string& name,
                          std::span<const std::byte> bytes, std::string_view advice) {
  const auto fail = [&](const char* what, const fs::path& path, const std::string& why) {
    throw Error(ErrorCode::unavailable,
                fmt::format("{} '{}': {}{}", what, path.string(), why, advice));
  };
  if (!make_private_directories(fs::absolute(folder)))
    fail("cannot make the directory", folder, errno_text(errno));
  std::error_code error;
  const fs::path real = fs::canonical(folder, error);
  if (error) fail("cannot find the directory", folder, errno_text(error.value()));
  std::string why;
  const FileDescriptor directory = open_own_directory(real, why);
  if (!directory) fail("cannot use the directory", folder, why);

  static constinit std::atomic<std::uint64_t> counter{0};
  // relaxed: only distinctness matters, the counter publishes nothing (pairs with itself)
  const std::uint64_t number = counter.fetch_add(1, std::memory_order_relaxed);
  const std::string temporary = fmt::format("{}-{}-{}", name, getpid(), number);
  unlinkat(directory.get(), temporary.c_str(), 0);  // of a process of this number that was killed
  const FileDescriptor file(openat(directory.get(), temporary.c_str(),
                                   O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!file) fail("cannot create", real / name, errno_text(errno));
  int failed = write_all(file.get(), bytes);
  if (failed == 0 &&
      renameat(directory.get(), temporary.c_str(), directory.get(), name.c_str()) != 0)
    failed = errno;
  if (failed != 0) {
    unlinkat(directory.get(), temporary.c_str(), 0);
    fail("cannot write", real / name, errno_text(failed));
  }
  return real / name;
}

}  // namespace heddle::files
