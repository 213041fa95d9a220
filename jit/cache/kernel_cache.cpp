// See cache/kernel_cache.hpp.
#include "jit/cache/kernel_cache.hpp"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <limits>
#include <memory>
#include <tuple>

namespace heddle::jit {
namespace {

/// Pruning goes below the bound, to this share, and is then not needed with every entry.
constexpr std::uint64_t kept_share_percent = 90;
/// The share of the bound that one process may add before a new look at the directory.
constexpr std::uint64_t look_share = 16;
/// The largest difference of clocks of machines that share a directory.
constexpr std::chrono::hours clock_slack{1};

std::size_t index_of(CacheReason reason) noexcept {
  const auto* const at =
      std::ranges::find(kernel_cache_counters, reason, &KernelCacheCounter::value);
  return static_cast<std::size_t>(at - std::begin(kernel_cache_counters));
}

struct CloseStream {
  void operator()(DIR* stream) const noexcept { closedir(stream); }
};

/// Calls f(name, stat) for each file of any kind. Returns errno's value when the directory cannot
/// be read.
template <class F>
int each_file(int directory, const F& f) {
  // Opened anew: a duplicate would share the original's position.
  FileDescriptor own(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!own) return errno;
  const std::unique_ptr<DIR, CloseStream> stream(fdopendir(own.get()));
  if (!stream) return errno;
  static_cast<void>(own.release());  // owned by the stream now
  while (const dirent* const entry = readdir(stream.get())) {
    struct stat info{};
    if (fstatat(directory, entry->d_name, &info, AT_SYMLINK_NOFOLLOW) == 0)
      f(std::string(entry->d_name), info);
  }
  return 0;
}

/// True if a flawed file is useless to every version, and another attempt would fail too.
bool is_for_nobody(CacheReason flaw) noexcept {
  return flaw == &KernelCacheCounters::corrupt || flaw == &KernelCacheCounters::truncated ||
         flaw == &KernelCacheCounters::foreign;
}

std::int64_t used_ns(const struct stat& info) {
  constexpr std::int64_t ns = 1'000'000'000;
  constexpr std::int64_t seconds_max = std::numeric_limits<std::int64_t>::max() / ns - 1;
  // A file system may report any number.
  return std::clamp(std::int64_t{info.st_mtim.tv_sec}, -seconds_max, seconds_max) * ns +
         info.st_mtim.tv_nsec;
}

/// The latest possible time of a use.
std::int64_t latest_use_ns() {
  const auto now = std::chrono::system_clock::now().time_since_epoch() + clock_slack;
  return std::chrono::duration_cast<std::chrono::nanoseconds>(now).count();
}

std::string counters_text(const KernelCacheCounters& counters) {
  std::string text;
  for (const auto& [name, value] : kernel_cache_counters)
    text += fmt::format("{} {}\n", name, counters.*value);
  return text;
}

/// Malformed counters are read as 0.
KernelCacheCounters parse_counters(std::string_view text) {
  KernelCacheCounters counters;
  for (const auto& [name, value] : kernel_cache_counters) {
    const std::string before = std::string(name) + " ";
    const std::size_t at = text.find(before);
    if (at == std::string_view::npos || (at > 0 && text[at - 1] != '\n')) continue;
    const std::string_view digits = text.substr(at + before.size());
    std::from_chars(digits.data(), digits.data() + digits.size(), counters.*value);
  }
  return counters;
}

KernelCacheCounters read_counters(int directory) {
  CacheTrouble trouble;
  const FileDescriptor file = open_cache_file(directory, cache_counters_file, trouble);
  char text[4096];
  const ssize_t n = file ? ::read(file.get(), text, sizeof text) : 0;
  return n > 0 ? parse_counters({text, static_cast<std::size_t>(n)}) : KernelCacheCounters{};
}

}  // namespace

KernelCache::KernelCache(Options options) : options_(std::move(options)), owner_(getpid()) {}

KernelCache::~KernelCache() {
  if (!enabled() || getpid() != owner_) return;
  try {
    save_counters();
  } catch (const std::exception&) {  // no memory for statistics
  }
}

void KernelCache::count(CacheReason reason) noexcept {
  // relaxed: a count, which publishes nothing; pairs with the loads in counters().
  counters_[index_of(reason)].fetch_add(1, std::memory_order_relaxed);
}

KernelCacheCounters KernelCache::counters() const noexcept {
  KernelCacheCounters result;
  for (std::size_t k = 0; k < counters_.size(); ++k) {
    // relaxed: see count().
    result.*kernel_cache_counters[k].value = counters_[k].load(std::memory_order_relaxed);
  }
  return result;
}

void KernelCache::save_counters() {
  CacheTrouble trouble;
  const KernelCacheCounters own = counters();
  const FileDescriptor directory = open_cache_directory(options_.directory, false, trouble);
  const auto is_zero = [&own](const KernelCacheCounter& c) { return own.*c.value == 0; };
  if (!directory || std::ranges::all_of(kernel_cache_counters, is_zero)) return;
  // One process at a time adds. A process that is killed meanwhile, or finds the lock taken, loses
  // its counts: closing a backend waits for no other process.
  if (flock(directory.get(), LOCK_EX | LOCK_NB) != 0) return;
  KernelCacheCounters sum = read_counters(directory.get());
  for (const auto& [name, value] : kernel_cache_counters) sum.*value += own.*value;
  const std::string text = counters_text(sum);
  const std::span<const std::byte> parts[] = {std::as_bytes(std::span(text))};
  write_cache_file(directory.get(), cache_counters_file, parts, trouble);
}

void KernelCache::complain(CacheReason reason, const std::string& problem) {
  if (!options_.warn) return;
  {
    const std::scoped_lock lock(mutex_);
    if (!complained_.insert(kernel_cache_counters[index_of(reason)].name).second) return;
  }
  options_.warn(fmt::format("kernel cache '{}': {} ({})", options_.directory.string(), problem,
                            kernel_cache_counters[index_of(reason)].name));
}

KernelCache::Found KernelCache::load(const CompileKey& key) {
  if (!enabled()) return {std::nullopt, &KernelCacheCounters::disabled};
  CacheTrouble trouble;
  const FileDescriptor directory = open_cache_directory(options_.directory, false, trouble);
  if (!directory) {
    if (trouble.reason != &KernelCacheCounters::absent)
      complain(trouble.reason, trouble.text + "; it is not used");
    return {std::nullopt, trouble.reason};
  }
  const std::string name = to_hex(key);
  auto entry = read_cache_entry(directory.get(), name, true, trouble);
  if (entry) return {std::move(entry), &KernelCacheCounters::disk_hits};
  if (trouble.reason == &KernelCacheCounters::unreadable) {  // the entry may be sound
    complain(trouble.reason, fmt::format("entry {}: {}", name, trouble.text));
  } else if (trouble.reason != &KernelCacheCounters::absent) {
    complain(trouble.reason, fmt::format("entry {}: {}; it is removed", name, trouble.text));
    unlinkat(directory.get(), name.c_str(), 0);
  }
  return {std::nullopt, trouble.reason};
}

bool KernelCache::store(const CompileKey& key, std::string_view info,
                        std::span<const std::byte> content) {
  if (!enabled()) return false;
  CacheTrouble trouble;
  const FileDescriptor directory = open_cache_directory(options_.directory, true, trouble);
  const std::vector<std::byte> head = cache_entry_head(key, info, content);
  const std::uint64_t bytes = head.size() + content.size();
  if (directory && bytes > options_.bytes_max) {
    trouble = {
        &KernelCacheCounters::full,
        fmt::format("an entry has {} bytes (at most {} are kept)", bytes, options_.bytes_max)};
  }
  const std::span<const std::byte> parts[] = {head, content};
  if (trouble.reason != nullptr ||
      !write_cache_file(directory.get(), to_hex(key), parts, trouble)) {
    count(trouble.reason);
    complain(trouble.reason, trouble.text + "; what is compiled is not kept");
    return false;
  }
  if (const std::string problem = note_stored(directory.get(), bytes); !problem.empty())
    complain(&KernelCacheCounters::unwritable, "it cannot be kept within its bound: " + problem);
  return true;
}

/// Prunes when the known total exceeds the bound. Looks at the directory with the first entry, and
/// again after each share of the bound. Returns a failure of the system as text.
std::string KernelCache::note_stored(int directory, std::uint64_t bytes) {
  const std::scoped_lock lock(mutex_);
  bytes_since_look_ += bytes;
  if (bytes_known_ && *bytes_known_ + bytes_since_look_ <= options_.bytes_max &&
      bytes_since_look_ <= options_.bytes_max / look_share) {
    return {};
  }
  std::uint64_t there = 0;
  const int error = each_file(directory, [&](const std::string& name, const struct stat& info) {
    const CacheFileKind kind = kind_of_cache_file(name);
    if (kind == CacheFileKind::temporary) remove_if_abandoned(directory, name);
    if (kind == CacheFileKind::entry) there += static_cast<std::uint64_t>(info.st_size);
  });
  std::string problem = error != 0 ? errno_text(error) : "";
  if (there > options_.bytes_max) {
    const Freed freed = shrink(directory, options_.bytes_max / 100 * kept_share_percent);
    there = freed.left;
    problem = freed.problem;
  }
  bytes_known_ = there;
  bytes_since_look_ = 0;
  return problem;
}

/// Returns errno's value: ENOENT when another process was first. Records a refusal of the system in
/// `freed`.
int KernelCache::remove_file(int directory, const std::string& name, Freed& freed) {
  if (unlinkat(directory, name.c_str(), 0) == 0) return 0;
  const int error = errno;
  struct stat info{};
  // A read-only file system refuses the removal of absent files too.
  const bool gone = fstatat(directory, name.c_str(), &info, AT_SYMLINK_NOFOLLOW) != 0;
  if (gone && errno == ENOENT) return ENOENT;
  if (freed.kept++ == 0) freed.problem = fmt::format("{}: {}", name, errno_text(error));
  return error;
}

KernelCache::Freed KernelCache::shrink(int directory, std::uint64_t bytes_max) {
  struct File {
    std::int64_t used;
    std::string name;
    std::uint64_t bytes;
    bool operator<(const File& other) const {
      return std::tie(used, name) < std::tie(other.used, other.name);
    }
  };
  constexpr std::int64_t first = std::numeric_limits<std::int64_t>::min();
  const std::int64_t latest = latest_use_ns();
  std::vector<File> files;
  std::uint64_t total = 0;  // bytes of files that may be useful
  Freed freed;
  const int error = each_file(directory, [&](const std::string& name, const struct stat& info) {
    const auto bytes = static_cast<std::uint64_t>(info.st_size);
    const CacheFileKind kind = kind_of_cache_file(name);
    if (kind == CacheFileKind::temporary) remove_if_abandoned(directory, name);
    if (kind != CacheFileKind::entry) return;
    const CacheReason flaw = flaw_of_entry(directory, name);
    // of stat; holes, which only flawed files have, take no blocks
    constexpr std::uint64_t block = 512;
    const std::uint64_t taken =
        flaw == nullptr ? bytes
                        : std::min(bytes, block * static_cast<std::uint64_t>(info.st_blocks));
    if (is_for_nobody(flaw)) {
      files.push_back({first, name, taken});
    } else {
      files.push_back({used_ns(info) <= latest ? used_ns(info) : first + 1, name, taken});
      total += taken;
    }
  });
  if (error != 0) freed = {0, 0, 0, 1, errno_text(error)};
  std::ranges::sort(files, std::less<>());
  for (const File& file : files) {
    const bool useless = file.used == first;
    if (total <= bytes_max && !useless) break;
    const int refused = remove_file(directory, file.name, freed);
    if (refused != 0 && refused != ENOENT) continue;
    if (refused == 0) {
      ++freed.entries;
      freed.bytes += file.bytes;
      count(&KernelCacheCounters::evicted);
    }
    if (!useless) total -= file.bytes;
  }
  freed.left = total;
  return freed;
}

FileDescriptor KernelCache::require_directory() const {
  CacheTrouble trouble;
  FileDescriptor directory = open_cache_directory(options_.directory, false, trouble);
  if (!directory && trouble.reason != &KernelCacheCounters::absent) {
    throw Error(ErrorCode::unavailable, fmt::format("kernel cache '{}' is not used: {}",
                                                    options_.directory.string(), trouble.text));
  }
  return directory;
}

KernelCacheInfo KernelCache::info() const {
  KernelCacheInfo result;
  result.directory = options_.directory.string();
  result.bytes_max = options_.bytes_max;
  if (!enabled()) {
    result.refusal = options_.absence;
    return result;
  }
  CacheTrouble trouble;
  const FileDescriptor directory = open_cache_directory(options_.directory, false, trouble);
  if (!directory) {
    if (trouble.reason != &KernelCacheCounters::absent) result.refusal = trouble.text;
    return result;
  }
  const int error =
      each_file(directory.get(), [&result](const std::string& name, const struct stat& file) {
        if (kind_of_cache_file(name) != CacheFileKind::entry) return;
        ++result.entries;
        result.bytes += static_cast<std::uint64_t>(file.st_size);
      });
  if (error != 0) result.refusal = "it cannot be listed: " + errno_text(error);
  result.counters = read_counters(directory.get());
  return result;
}

template <class F>
void KernelCache::each_file_or_throw(int directory, const F& f) const {
  if (const int error = each_file(directory, f); error != 0) {
    throw Error(ErrorCode::unavailable,
                fmt::format("kernel cache '{}' cannot be listed: {}", options_.directory.string(),
                            errno_text(error)));
  }
}

std::vector<CacheFile> KernelCache::list() const {
  std::vector<CacheFile> files;
  const FileDescriptor directory = require_directory();
  if (!directory) return files;
  each_file_or_throw(directory.get(), [&](const std::string& name, const struct stat& info) {
    if (kind_of_cache_file(name) != CacheFileKind::entry) return;
    CacheFile file{name, {}, static_cast<std::uint64_t>(info.st_size), used_ns(info), {}};
    CacheTrouble trouble;
    if (const auto entry = read_cache_entry(directory.get(), name, false, trouble)) {
      file.info = entry->info;
    } else if (trouble.reason == &KernelCacheCounters::absent) {
      return;  // evicted since its name was read
    } else {
      file.problem = trouble.text;
    }
    files.push_back(std::move(file));
  });
  std::ranges::sort(files, std::greater<>(), &CacheFile::used_ns);
  return files;
}

std::vector<CacheFile> KernelCache::remove_damaged() {
  std::vector<CacheFile> damaged = list();
  std::erase_if(damaged, [](const CacheFile& file) { return file.problem.empty(); });
  const FileDescriptor directory = require_directory();
  for (CacheFile& file : damaged) {
    Freed freed;
    remove_file(directory.get(), file.name, freed);
    if (freed.kept > 0) file.problem += "; it cannot be removed: " + freed.problem;
  }
  return damaged;
}

KernelCache::Freed KernelCache::prune(std::uint64_t bytes_max) {
  const FileDescriptor directory = require_directory();
  return directory ? shrink(directory.get(), bytes_max) : Freed{};
}

KernelCache::Freed KernelCache::clear() {
  const FileDescriptor directory = require_directory();
  if (!directory) return {};
  Freed freed = shrink(directory.get(), 0);
  remove_file(directory.get(), cache_counters_file, freed);
  for (auto& counter : counters_) {
    // relaxed: see count().
    counter.store(0, std::memory_order_relaxed);
  }
  return freed;
}

}  // namespace heddle::jit
