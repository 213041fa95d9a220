// See files/temp_dir.hpp. Directories below a shared /tmp are used only if they are ours and
// private.
#include "files/temp_dir.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <set>
#include <system_error>
#include <utility>

#include "files/own_directory.hpp"
#include "heddle/status.hpp"

namespace heddle::files {
namespace fs = std::filesystem;
namespace {

constexpr std::size_t file_stem_max = 100;

[[noreturn]] void fail(const char* what, const fs::path& path, int error,
                       std::string_view advice = "") {
  throw Error(ErrorCode::unavailable,
              fmt::format("{} '{}': {}{}", what, path.string(), errno_text(error), advice));
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

// A temporary directory holds a file whose lock says that its maker lives: the kernel drops it with
// the maker's last descriptor. The file comes first into the directory, so that whatever holds
// other things without it is being removed, or was when its remover died. Only names of this
// prefix are swept: heddle-XXXXXX are of versions that lock nothing, and of file systems that
// cannot.
constexpr std::string_view swept_prefix = "heddle-tmp-";
constexpr std::string_view lock_file = ".lock";

struct CloseStream {
  void operator()(DIR* stream) const noexcept { closedir(stream); }
};

/// Calls f(name) for each entry while that returns true. Not by std::filesystem, whose way of
/// opening directories needs fcntl(), which is not everywhere allowed. Whether all were met.
template <class F>
bool each_entry(const fs::path& directory, const F& f) {
  const std::unique_ptr<DIR, CloseStream> stream(opendir(directory.c_str()));
  const dirent* entry = nullptr;
  while (stream && (entry = readdir(stream.get())) != nullptr) {
    const std::string_view name = entry->d_name;
    if (name != "." && name != ".." && !f(name)) return false;
  }
  return true;
}

/// Removes what is in a directory but the file called `but`, in up to `steps`, which it counts
/// down. Whether all that went that could.
bool empty_tree(const fs::path& directory, std::string_view but, std::size_t& steps) {
  return each_entry(directory, [&](std::string_view name) {
    if (name == but) return true;
    if (steps == 0) return false;
    --steps;
    const fs::path path = directory / name;
    if (unlink(path.c_str()) == 0 || errno != EISDIR) return true;
    if (!empty_tree(path, {}, steps)) return false;
    rmdir(path.c_str());
    return true;
  });
}

/// Removes a directory whose lock is ours, or that has none. The lock goes last and closed: where
/// files are another machine's, what is open keeps a name, and a directory with it.
void remove_tree(const fs::path& directory, FileDescriptor lock, std::size_t& steps) {
  if (!empty_tree(directory, lock_file, steps)) return;
  lock.reset();
  unlink((directory / lock_file).c_str());
  rmdir(directory.c_str());
}

void remove_whole(const fs::path& directory, FileDescriptor lock) {
  std::size_t steps = std::numeric_limits<std::size_t>::max();
  remove_tree(directory, std::move(lock), steps);
}

enum class Lock : std::uint8_t { taken, lost, unsupported };

/// Makes the lock of a fresh directory. Lost: a sweeper looked in between, and removes it.
Lock lock_fresh(const fs::path& directory, FileDescriptor& lock) {
  const fs::path path = directory / lock_file;
  lock = FileDescriptor(open(path.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!lock) return errno == ENOENT ? Lock::lost : Lock::unsupported;
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return errno == EWOULDBLOCK ? Lock::lost : Lock::unsupported;
  struct stat ours{}, there{};
  const bool same = fstat(lock.get(), &ours) == 0 && stat(path.c_str(), &there) == 0 &&
                    ours.st_ino == there.st_ino && ours.st_dev == there.st_dev;
  return same ? Lock::taken : Lock::lost;
}

/// Removes a directory whose maker is gone, in up to `steps`; leaves one that is used, or not ours,
/// as it is.
void sweep(const fs::path& directory, std::size_t& steps) {
  struct stat info{};
  if (lstat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) return;
  if (info.st_uid != geteuid() || (info.st_mode & 077) != 0) return;
  const auto open_lock = [&directory] {
    return FileDescriptor(
        open((directory / lock_file).c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  };
  FileDescriptor lock = open_lock();
  if (!lock && errno == ENOENT) {
    if (rmdir(directory.c_str()) == 0 || errno != ENOTEMPTY) return;
    lock = open_lock();  // made since then, or what holds other things is half removed
    if (!lock && errno != ENOENT) return;
  }
  if (lock && flock(lock.get(), LOCK_EX | LOCK_NB) != 0) return;
  remove_tree(directory, std::move(lock), steps);
}

/// Once in a process for each root, and not for long: a compile waits for it.
void sweep_once(const fs::path& root) {
  static constinit std::mutex mutex;
  {
    // Nothing is lost where another thread is here, and in a forked child it may be for ever.
    const std::unique_lock lock(mutex, std::try_to_lock);
    if (!lock) return;
    // Never destroyed: compiles may run during exit.
    static auto& swept = *new std::set<fs::path>();
    if (!swept.insert(root).second) return;
  }
  std::size_t steps = swept_entries_max;
  each_entry(root, [&](std::string_view name) {
    if (name.starts_with(swept_prefix)) sweep(root / name, steps);
    return steps != 0 && --steps != 0;
  });
}

}  // namespace

fs::path temp_root(const fs::path& asked) { return asked.empty() ? fs::path("/tmp") : asked; }

TempDir::TempDir(const fs::path& where) {
  const fs::path root = fs::absolute(temp_root(where));
  const auto make = [&root](std::string_view prefix) {
    std::string pattern = (root / prefix).string() + "XXXXXX";
    if (mkdtemp(pattern.data()) == nullptr) {
      fail("cannot make a temporary directory in", root, errno, temp_dir_advice);
    }
    return fs::path(pattern);
  };
  sweep_once(root);
  constexpr int tries_max = 100;
  for (int k = 0; k < tries_max; ++k) {
    path_ = make(swept_prefix);
    const Lock lock = lock_fresh(path_, lock_);
    if (lock == Lock::taken) return;
    lock_.reset();
    if (lock == Lock::lost) continue;  // a sweeper's now
    remove_whole(path_, {});
    break;
  }
  path_ = make("heddle-");
}

TempDir::TempDir(TempDir&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_(std::move(other.lock_)) {}

TempDir::~TempDir() {
  if (path_.empty()) return;
  try {
    remove_whole(path_, std::move(lock_));
  } catch (const std::bad_alloc&) {
    // Nobody has its lock now: another process sweeps it.
  }
}

void write_file(const fs::path& path, std::string_view text, std::string_view advice) {
  const FileDescriptor fd(
      open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd) fail("cannot create", path, errno, advice);
  const int error = write_all(fd.get(), std::as_bytes(std::span(text)));
  if (error == 0) return;
  unlink(path.c_str());  // half a file is no use, and takes the room
  fail("cannot write", path, error, advice);
}

std::vector<std::byte> read_file(const fs::path& path, std::size_t bytes_max) {
  const FileDescriptor fd(open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!fd) fail("cannot open", path, errno);
  struct stat info{};
  if (fstat(fd.get(), &info) != 0) fail("cannot look at", path, errno);
  if (!S_ISREG(info.st_mode)) {
    throw Error(ErrorCode::unavailable,
                fmt::format("cannot read '{}': it is no regular file", path.string()));
  }
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

std::string keep_source(const fs::path& where, std::string_view unit_name,
                        std::string_view extension, std::string_view source) {
  const fs::path directory = temp_root(where) / fmt::format("heddle-failed-{}", geteuid());
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

namespace {

/// What this process calls that text in the folder: UNIT.EXTENSION, or with -2, -3, ... for other
/// units of the name.
std::string dump_name(const fs::path& folder, const std::string& stem, std::string_view extension,
                      std::string_view text) {
  static std::mutex mutex;
  static auto& written = *new std::map<fs::path, std::uint64_t>();  // outlives static objects
  const std::uint64_t digest = XXH3_64bits(text.data(), text.size());
  const std::lock_guard lock(mutex);
  for (std::size_t number = 1;; ++number) {
    std::string name = number == 1 ? fmt::format("{}.{}", stem, extension)
                                   : fmt::format("{}-{}.{}", stem, number, extension);
    if (written.emplace(folder / name, digest).first->second == digest) return name;
  }
}

}  // namespace

void dump(const fs::path& folder, std::string_view unit_name, std::string_view extension,
          std::string_view text) {
  if (folder.empty()) return;
  replace_own_file(folder, dump_name(folder, file_stem(unit_name), extension, text),
                   std::as_bytes(std::span(text)), dump_dir_advice);
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

}  // namespace heddle::files
