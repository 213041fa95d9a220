// The kernel cache: compiled libraries on disk, in a directory of the user's own, shared by all
// processes. Any thread, any number of processes.
//
// Whoever may write the directory may run code as its owner: so it is used only when it is a
// directory (no link) that belongs to this user and that nobody else may write, and so is each
// file in it. A checksum finds damage, not malice.
//
// An entry is one file, named after its key: a header, a line of information, the library. It is
// written under another name in the same directory and then renamed, so that readers see all of it
// or nothing. It is not forced to disk: a power cut may lose the entries of the last half minute or
// leave them torn. What is torn fails its checksum and is compiled again; waiting for the disk
// would cost every entry what the README of jit/ says.
//
// Reading an entry marks it as used. When the files together exceed the bound, the least recently
// used go, and a process that is reading one keeps what it has opened. Two processes that prune at
// once take the same files in the same order: neither can remove more than both wanted. A file
// whose size is not what its header says is damaged: it goes first, and its size, which may be any
// number, counts for nothing. One that was used in the future, by a clock that was set back since,
// was used longest ago, as all that is used gets today's time.
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

/// What is known of a file in the cache.
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
    std::filesystem::path directory;  ///< empty: nothing is kept
    std::uint64_t bytes_max = std::uint64_t{256} << 20;
    /// Gets one line for each kind of trouble, once.
    std::function<void(const std::string&)> warn{};
    /// Why there is no directory.
    std::string absence = "HEDDLE_CACHE or the program switched it off";
  };

  explicit KernelCache(Options options);
  /// Adds the counters to those in the directory.
  ~KernelCache();
  KernelCache(const KernelCache&) = delete;
  KernelCache& operator=(const KernelCache&) = delete;

  [[nodiscard]] bool enabled() const noexcept { return !options_.directory.empty(); }

  /// The entry, whole and undamaged; else why not. A damaged one is removed. Throws for memory
  /// alone.
  struct Found {
    std::optional<CacheEntry> entry;
    CacheReason reason = &KernelCacheCounters::disk_hits;
  };
  [[nodiscard]] Found load(const CompileKey& key);
  /// Keeps an entry, or counts why it cannot be kept. Whether it did. Throws for memory alone.
  bool store(const CompileKey& key, std::string_view info, std::span<const std::byte> content);

  void count(CacheReason reason) noexcept;
  [[nodiscard]] KernelCacheCounters counters() const noexcept;

  // For people. These throw Error(unavailable) when the directory is not to be trusted; where there
  // is none yet there is nothing to do.

  [[nodiscard]] KernelCacheInfo info() const;
  /// All entries, most recently used first, each read and checked.
  [[nodiscard]] std::vector<CacheFile> list() const;
  /// Removes what is damaged; returns that. Its `problem` says so where the system would not.
  std::vector<CacheFile> remove_damaged();
  struct Freed {
    std::uint64_t entries = 0, bytes = 0;
    std::uint64_t left = 0;  ///< bytes of the sound entries that stay
    std::uint64_t kept = 0;  ///< files that the system would not remove
    std::string problem;     ///< what is wrong with the first of them
  };
  /// Removes the least recently used until at most `bytes_max` are left, and what writers that were
  /// killed left behind.
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
  std::set<const char*> complained_;          // guarded by mutex_: kinds of trouble told already
  std::optional<std::uint64_t> bytes_known_;  // guarded by mutex_: in all files, as we know
  std::uint64_t bytes_since_look_ = 0;        // guarded by mutex_: of these, written after it
};

}  // namespace heddle::jit
