// See cache/kernel_cache_file.hpp.
#include "jit/cache/kernel_cache_file.hpp"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "files/own_directory.hpp"

namespace heddle::jit {
namespace fs = std::filesystem;
namespace {

constexpr std::uint32_t entry_format = 1;
constexpr char entry_magic[8] = {'h', 'e', 'd', 'd', 'l', 'e', 'K', 'C'};
constexpr std::size_t info_bytes_max = 4096;
constexpr std::string_view temporary_prefix = ".tmp-";

/// Native byte order: a cache belongs to one machine.
struct EntryHeader {
  char magic[8];
  std::uint32_t format;
  std::uint32_t info_bytes;
  CompileKey key;
  std::uint64_t content_bytes;
  Checksum content_sum;
  std::uint64_t head_sum;  ///< XXH3-64 of all earlier bytes and of the information
};
static_assert(sizeof(EntryHeader) == 80);

std::uint64_t head_sum(const EntryHeader& header, std::string_view info) {
  std::string bytes(reinterpret_cast<const char*>(&header), offsetof(EntryHeader, head_sum));
  bytes += info;
  return XXH3_64bits(bytes.data(), bytes.size());
}

/// The reason why a system call on a file or directory failed.
CacheTrouble refused(CacheReason reason, std::string_view what) {
  return {reason, fmt::format("{}: {}", what, errno_text(errno))};
}

/// Reads `bytes` bytes at the file's position; a file that ends before is `truncated`. True on
/// success.
bool read_all(int fd, void* to, std::size_t bytes, CacheTrouble& trouble) {
  for (auto* at = static_cast<char*>(to); bytes > 0;) {
    const ssize_t n = ::read(fd, at, bytes);
    if (n > 0) {
      at += n;
      bytes -= static_cast<std::size_t>(n);
    } else if (n == 0) {
      trouble = {&KernelCacheCounters::truncated, "it ends too soon"};
      return false;
    } else if (errno != EINTR) {
      trouble = refused(&KernelCacheCounters::unreadable, "read");
      return false;
    }
  }
  return true;
}

bool out_of_space(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

std::string temporary_name() {
  std::uint64_t random[2] = {};
  if (getrandom(random, sizeof random, GRND_NONBLOCK) != sizeof random) random[0] = 0;
  return fmt::format("{}{}-{:016x}{:016x}", temporary_prefix, getpid(), random[0], random[1]);
}

/// A new, locked file in `directory`; `name` returns its name. The lock tells cleaning processes
/// that the writer is alive, and ends with the writer. A process that looks between creation and
/// locking takes the file for abandoned; a new file is then made.
FileDescriptor make_temporary(int directory, std::string& name, CacheTrouble& trouble) {
  constexpr int tries_max = 100;
  for (int k = 0; k < tries_max; ++k) {
    name = temporary_name();
    FileDescriptor file(
        openat(directory, name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
    if (!file) break;
    struct stat info{};
    const int error = flock(file.get(), LOCK_EX | LOCK_NB) == 0 ? 0 : errno;
    if (error == 0 && fstat(file.get(), &info) == 0 && info.st_nlink > 0) return file;
    unlinkat(directory, name.c_str(), 0);
    errno = error == 0 ? EWOULDBLOCK : error;
    if (errno != EWOULDBLOCK) break;
  }
  trouble =
      refused(out_of_space(errno) ? &KernelCacheCounters::full : &KernelCacheCounters::unwritable,
              "no file can be made in it");
  return {};
}

/// Header and information of the file `name`, checked against each other and against the file's
/// size.
std::optional<EntryHeader> read_head(int fd, const std::string& name, std::string& info,
                                     CacheTrouble& trouble) {
  struct stat file{};
  if (fstat(fd, &file) != 0) {
    trouble = refused(&KernelCacheCounters::unreadable, "it cannot be looked at");
    return std::nullopt;
  }
  EntryHeader header;
  if (!read_all(fd, &header, sizeof header, trouble)) return std::nullopt;
  if (std::memcmp(header.magic, entry_magic, sizeof entry_magic) != 0) {
    trouble = {&KernelCacheCounters::corrupt, "it does not begin as an entry"};
    return std::nullopt;
  }
  if (header.format != entry_format) {
    trouble = {&KernelCacheCounters::other_version,
               fmt::format("it has format {} (expected {})", header.format, entry_format)};
    return std::nullopt;
  }
  if (header.info_bytes > info_bytes_max) {
    trouble = {&KernelCacheCounters::corrupt, "its header is damaged"};
    return std::nullopt;
  }
  info.resize(header.info_bytes);
  if (!read_all(fd, info.data(), info.size(), trouble)) return std::nullopt;
  if (header.head_sum != head_sum(header, info)) {
    trouble = {&KernelCacheCounters::corrupt, "its header is damaged"};
    return std::nullopt;
  }
  if (to_hex(header.key) != name) {
    trouble = {&KernelCacheCounters::corrupt, "it is another key's"};
    return std::nullopt;
  }
  const auto size = static_cast<std::uint64_t>(file.st_size);
  const std::uint64_t expected = sizeof header + info.size() + header.content_bytes;
  if (size != expected || header.content_bytes > image_bytes_max) {
    trouble = {size < expected ? &KernelCacheCounters::truncated : &KernelCacheCounters::corrupt,
               fmt::format("it has {} bytes (expected {})", size, expected)};
    return std::nullopt;
  }
  return header;
}

}  // namespace

CacheFileKind kind_of_cache_file(std::string_view name) noexcept {
  const auto is_hex = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (name.size() == 2 * std::tuple_size_v<CompileKey> && std::ranges::all_of(name, is_hex))
    return CacheFileKind::entry;
  if (name.starts_with(temporary_prefix)) return CacheFileKind::temporary;
  return name == cache_counters_file ? CacheFileKind::counters : CacheFileKind::other;
}

FileDescriptor open_cache_directory(const fs::path& path, bool create, CacheTrouble& trouble) {
  constexpr int flags = O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC;
  FileDescriptor directory(open(path.c_str(), flags));
  if (!directory && errno == ENOENT && create) {
    if (!make_private_directories(path)) {
      trouble = refused(&KernelCacheCounters::unwritable, "it cannot be made");
      return {};
    }
    directory = FileDescriptor(open(path.c_str(), flags));
  }
  if (!directory) {
    const bool link = errno == ELOOP || errno == ENOTDIR;
    trouble = errno == ENOENT ? CacheTrouble{&KernelCacheCounters::absent, "there is none yet"}
              : link ? CacheTrouble{&KernelCacheCounters::foreign, "it is a link or no directory"}
                     : refused(&KernelCacheCounters::unreadable, "it cannot be opened");
    return {};
  }
  struct stat info{};
  if (fstat(directory.get(), &info) != 0) {
    trouble = refused(&KernelCacheCounters::unreadable, "it cannot be looked at");
    return {};
  }
  if (std::string why = foreignness(info); !why.empty()) {
    trouble = {&KernelCacheCounters::foreign, std::move(why)};
    return {};
  }
  return directory;
}

FileDescriptor open_cache_file(int directory, const std::string& name, CacheTrouble& trouble) {
  // Non-blocking: a pipe in the file's place must not block the open.
  FileDescriptor file(
      openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK));
  if (!file) {
    trouble = errno == ENOENT  ? CacheTrouble{&KernelCacheCounters::absent, "there is none"}
              : errno == ELOOP ? CacheTrouble{&KernelCacheCounters::foreign, "it is a link"}
                               : refused(&KernelCacheCounters::unreadable, "it cannot be opened");
    return {};
  }
  struct stat info{};
  if (fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) {
    trouble = {&KernelCacheCounters::unreadable, "it is no plain file"};
    return {};
  }
  if (std::string why = foreignness(info); !why.empty()) {
    trouble = {&KernelCacheCounters::foreign, std::move(why)};
    return {};
  }
  return file;
}

std::optional<CacheEntry> read_cache_entry(int directory, const std::string& name, bool use,
                                           CacheTrouble& trouble) {
  const FileDescriptor file = open_cache_file(directory, name, trouble);
  CacheEntry entry;
  const auto header = file ? read_head(file.get(), name, entry.info, trouble) : std::nullopt;
  if (!header) return std::nullopt;
  entry.library.bytes.resize(header->content_bytes);
  entry.library.sum = header->content_sum;
  if (!read_all(file.get(), entry.library.bytes.data(), entry.library.bytes.size(), trouble))
    return std::nullopt;
  if (checksum(entry.library.bytes) != header->content_sum) {
    trouble = {&KernelCacheCounters::corrupt, "its checksum differs"};
    return std::nullopt;
  }
  if (use) futimens(file.get(), nullptr);  // if refused, the entry looks older than it is
  return entry;
}

CacheReason flaw_of_entry(int directory, const std::string& name) {
  CacheTrouble trouble;
  std::string info;
  const FileDescriptor file = open_cache_file(directory, name, trouble);
  return file && read_head(file.get(), name, info, trouble) ? nullptr : trouble.reason;
}

std::vector<std::byte> cache_entry_head(const CompileKey& key, std::string_view info,
                                        std::span<const std::byte> content) {
  info = info.substr(0, info_bytes_max);
  EntryHeader header{};
  std::memcpy(header.magic, entry_magic, sizeof entry_magic);
  header.format = entry_format;
  header.info_bytes = static_cast<std::uint32_t>(info.size());
  header.key = key;
  header.content_bytes = content.size();
  header.content_sum = checksum(content);
  header.head_sum = head_sum(header, info);
  std::vector<std::byte> head(sizeof header + info.size());
  std::memcpy(head.data(), &header, sizeof header);
  std::memcpy(head.data() + sizeof header, info.data(), info.size());
  return head;
}

bool write_cache_file(int directory, const std::string& name,
                      std::span<const std::span<const std::byte>> parts, CacheTrouble& trouble) {
  std::string temporary;
  const FileDescriptor file = make_temporary(directory, temporary, trouble);
  if (!file) return false;
  int error = 0;
  for (const auto& part : parts) {
    if (error == 0) error = files::write_all(file.get(), part);
  }
  if (error == 0 && renameat(directory, temporary.c_str(), directory, name.c_str()) == 0)
    return true;
  if (error != 0) errno = error;
  trouble =
      refused(out_of_space(errno) ? &KernelCacheCounters::full : &KernelCacheCounters::unwritable,
              "a file in it cannot be written");
  unlinkat(directory, temporary.c_str(), 0);
  return false;
}

bool remove_if_abandoned(int directory, const std::string& name) noexcept {
  const FileDescriptor file(
      openat(directory, name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file || flock(file.get(), LOCK_EX | LOCK_NB) != 0) return false;
  return unlinkat(directory, name.c_str(), 0) == 0;
}

}  // namespace heddle::jit
