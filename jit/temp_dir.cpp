// See temp_dir.hpp. Directories below a shared /tmp are used only if they are ours and private.
#include "jit/temp_dir.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <system_error>
#include <utility>

#include "heddle/status.hpp"
#include "jit/process.hpp"

namespace heddle::jit {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t file_stem_max = 100;

[[noreturn]] void fail(const char* what, const fs::path& path, int error, const char* advice = "") {
  throw Error(ErrorCode::unavailable,
              fmt::format("{} '{}': {}{}", what, path.string(), errno_text(error), advice));
}

void write_all(int fd, const fs::path& path, std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = write(fd, text.data(), text.size());
    if (n > 0) {
      text.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      fail("cannot write", path, errno);
    }
  }
}

/// A directory of ours that nobody else can write; empty and a reason otherwise.
std::string private_directory(const fs::path& path) {
  if (mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) return errno_text(errno);
  struct stat info{};
  if (lstat(path.c_str(), &info) != 0) return errno_text(errno);
  if (!S_ISDIR(info.st_mode)) return "it is not a directory";
  if (info.st_uid != geteuid()) return "it belongs to another user";
  if ((info.st_mode & 077) != 0) return "others may enter it";
  return {};
}

/// Deletes the oldest files so that at most `count` are left.
void prune(const fs::path& directory, std::size_t count) {
  std::vector<std::pair<fs::file_time_type, fs::path>> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(directory, error)) {
    files.emplace_back(entry.last_write_time(error), entry.path());
  }
  if (files.size() <= count) return;
  std::ranges::sort(files);
  for (std::size_t k = 0; k + count < files.size(); ++k) fs::remove(files[k].second, error);
}

}  // namespace

fs::path temp_root(const ToolOptions& options) {
  return options.temp_dir.empty() ? fs::path("/tmp") : options.temp_dir;
}

TempDir::TempDir(const ToolOptions& options) {
  std::string pattern = fs::absolute(temp_root(options) / "heddle-XXXXXX").string();
  if (mkdtemp(pattern.data()) == nullptr) {
    fail("cannot make a temporary directory in", temp_root(options), errno,
         " (set HEDDLE_TEMP_DIR or TMPDIR to a writable directory)");
  }
  path_ = pattern;
}

TempDir::TempDir(TempDir&& other) noexcept : path_(std::exchange(other.path_, {})) {}

TempDir::~TempDir() {
  std::error_code ignored;
  if (!path_.empty()) fs::remove_all(path_, ignored);
}

void write_file(const fs::path& path, std::string_view text) {
  const FileDescriptor fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) fail("cannot create", path, errno);
  write_all(fd.get(), path, text);
}

std::vector<std::byte> read_file(const fs::path& path, std::size_t bytes_max) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail("cannot open", path, errno);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) fail("cannot look at", path, errno);
  if (!S_ISREG(info.st_mode)) fail("cannot read", path, EISDIR);
  if (static_cast<std::uint64_t>(info.st_size) > bytes_max) {
    throw Error(ErrorCode::exhausted, fmt::format("'{}' has {} bytes (at most {} are read)",
                                                  path.string(), info.st_size, bytes_max));
  }
  std::vector<std::byte> bytes(static_cast<std::size_t>(info.st_size));
  std::size_t at = 0;
  while (at < bytes.size()) {
    const ssize_t n = ::read(fd.get(), bytes.data() + at, bytes.size() - at);
    if (n > 0) {
      at += static_cast<std::size_t>(n);
    } else if (n == 0) {
      bytes.resize(at);
    } else if (errno != EINTR) {
      fail("cannot read", path, errno);
    }
  }
  return bytes;
}

std::string keep_source(const ToolOptions& options, std::string_view unit_name,
                        std::string_view extension, std::string_view source) {
  const fs::path directory = temp_root(options) / fmt::format("heddle-failed-{}", geteuid());
  if (const std::string reason = private_directory(directory); !reason.empty()) {
    return fmt::format("the source could not be kept in '{}': {}", directory.string(), reason);
  }
  const std::uint64_t digest = XXH3_64bits(source.data(), source.size());
  const fs::path path =
      directory / fmt::format("{}-{:016x}.{}", file_stem(unit_name), digest, extension);
  try {
    prune(directory, kept_sources_max - 1);
    write_file(path, source);
  } catch (const std::exception& error) {
    return fmt::format("the source could not be kept: {}", error.what());
  }
  return fmt::format("the source is kept in {}", path.string());
}

void dump(const ToolOptions& options, std::string_view unit_name, std::string_view extension,
          std::string_view text) {
  if (options.dump_dir.empty()) return;
  std::error_code error;
  fs::create_directories(options.dump_dir, error);
  if (error) {
    fail("cannot make the directory of dumps", options.dump_dir, error.value(),
         " (set HEDDLE_DUMP_DIR to a writable directory, or unset it)");
  }
  write_file(options.dump_dir / fmt::format("{}.{}", file_stem(unit_name), extension), text);
}

std::string file_stem(std::string_view name) {
  std::string stem;
  for (const char c : name.substr(0, file_stem_max)) {
    const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                       c == '_' || c == '-' || (c == '.' && !stem.empty());
    stem += plain ? c : '_';
  }
  return stem.empty() ? "unit" : stem;
}

}  // namespace heddle::jit
