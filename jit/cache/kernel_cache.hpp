// The kernel cache: compiled libraries on disk, in a directory owned by the user, shared by all
// processes. Any thread, any number of processes.
//
// A user who may write the directory may run code as its owner. The cache therefore uses only a
// directory (no link) that belongs to this user and that no other user may write; the same holds
// for each file in the directory. A checksum finds damage, not malice.
//
// An entry is one file, named after its key: a header, a line of information, the library. The
// writer creates the file under a temporary name in the same directory and renames the file, so
// readers see a whole entry or none. Entries are not synced to disk: a power cut may lose the
// entries of the last half minute, or leave torn entries. A torn entry fails its checksum and is
// compiled again; README.md states the cost of a sync per entry.
//
// Reading an entry marks the entry as used. When the files together exceed the bound, the least
// recently used are removed; a process that reads a removed entry keeps its open file. Two
// processes that prune at once remove the same files in the same order, hence neither removes more
// than both wanted. A file whose size contradicts its header is damaged: it is removed first, and
// its size, which may be any number, is not counted. A file used in the future, by a clock that was
// set back since, counts as the least recently used, because every later use gets the present time.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/kernel_cache.hpp"
#include "jit/cache/kernel_cache_file.hpp"
#include "jit/cache/key.hpp"

namespace heddle::jit {

/// Information on a file in the cache.
struct CacheFile {
  std::string name;
  std::string info;  ///< empty when the file is damaged
  std::uint64_t bytes = 0;
  std::int64_t used_ns = 0;  ///< since 1970
  std::string problem;       ///< empty: none
};

class KernelCache {
 public:
  struct Options {
    std::filesystem::path directory;  ///< empty: no cache
    std::uint64_t bytes_max = std::uint64_t{256} << 20;
    /// Gets one line for each kind of problem, once.
    std::function<void(const std::string&)> warn{};
    /// The reason for an empty directory.
    std::string absence = "HEDDLE_CACHE or the program switched it off";
  };

  explicit KernelCache(Options options);
  /// Adds the counters to the counters in the directory.
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  [[nodiscard]] bool enabled() const noexcept { return !options_.directory.empty(); }

  /// The entry if whole and undamaged, otherwise the reason. Removes a damaged entry. Throws only
  /// when memory is exhausted.
  struct Found {
    std::optional<CacheEntry> entry;
    CacheReason reason = &KernelCacheCounters::disk_hits;
  };
  [[nodiscard]] Found load(const CompileKey& key);
  /// Stores an entry, or counts the reason why that failed; returns true if stored. Throws only
  /// when memory is exhausted.
  bool store(const CompileKey& key, std::string_view info, std::span<const std::byte> content);

  void count(CacheReason reason) noexcept;
  [[nodiscard]] KernelCacheCounters counters() const noexcept;

  // For tools. The functions below throw Error(unavailable) when the directory cannot be trusted;
  // without a directory, they do nothing.

  [[nodiscard]] KernelCacheInfo info() const;
  /// All entries, most recently used first, each read and checked.
  [[nodiscard]] std::vector<CacheFile> list() const;
  /// Removes damaged entries and returns them. `problem` also says where the system refused the
  /// removal.
  std::vector<CacheFile> remove_damaged();
  struct Freed {
    std::uint64_t entries = 0, bytes = 0;
    std::uint64_t left = 0;  ///< bytes of the sound entries that stay
    std::uint64_t kept = 0;  ///< files that the system refused to remove
    std::string problem;     ///< the problem of the first kept file
  };
  /// Removes the least recently used entries until at most `bytes_max` bytes are left, and the
  /// temporary files of killed writers.
  Freed prune(std::uint64_t bytes_max);
  /// Removes all entries, and the counters.
  Freed clear();

 private:
  FileDescriptor require_directory() const;
  template <class F>
  void each_file_or_throw(int directory, const F& f) const;
  static int remove_file(int directory, const std::string& name, Freed& freed);
  Freed shrink(int directory, std::uint64_t bytes_max);
  std::string note_stored(int directory, std::uint64_t bytes);
  void complain(CacheReason reason, const std::string& problem);
  void save_counters();

  const Options options_;
  const pid_t owner_;
  std::array<std::atomic<std::uint64_t>, std::size(kernel_cache_counters)> counters_{};
  std::mutex mutex_;
  std::set<const char*> complained_;          // guarded by mutex_: reported kinds of problems
  std::optional<std::uint64_t> bytes_known_;  // guarded by mutex_: total size at the last look
  std::uint64_t bytes_since_look_ = 0;        // guarded by mutex_: bytes written since then
};

}  // namespace heddle::jit
