// Counters of the cache of compiled kernels. Values; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// Outcomes of compiling, counted per unit (J11): a unit is the result of one compiler call. Every
/// requested unit is counted once in the first group. The second group counts why units were not
/// taken from disk, the third how storing units ended.
struct KernelCacheCounters {
  std::uint64_t memory_hits = 0;  ///< found in memory: the image, or the program itself
  std::uint64_t shared = 0;       ///< another thread was compiling the same unit
  std::uint64_t disk_hits = 0;    ///< found on disk
  std::uint64_t compiled = 0;     ///< compiled

  std::uint64_t absent = 0;         ///< there was no entry
  std::uint64_t corrupt = 0;        ///< the entry's checksum, key or library was wrong
  std::uint64_t truncated = 0;      ///< the entry was cut short
  std::uint64_t other_version = 0;  ///< the entry's format belongs to another version of heddle
  /// entry or directory belongs to another user, is open to others, or is a link
  std::uint64_t foreign = 0;
  std::uint64_t unreadable = 0;  ///< the system refused to read
  std::uint64_t disabled = 0;    ///< switched off, or code for fixed addresses

  std::uint64_t stored = 0;      ///< stored
  std::uint64_t unwritable = 0;  ///< the system refused to write
  std::uint64_t full = 0;        ///< no space left, or larger than the cache's limit
  std::uint64_t evicted = 0;     ///< entries removed, least recently used first
};

/// A counter and its name; kernel_cache_counters lists every counter, in order.
struct KernelCacheCounter {
  const char* name;
  std::uint64_t KernelCacheCounters::* value;
};
[[gnu::visibility("hidden")]] inline constexpr KernelCacheCounter kernel_cache_counters[] = {
    {"memory_hits", &KernelCacheCounters::memory_hits},
    {"shared", &KernelCacheCounters::shared},
    {"disk_hits", &KernelCacheCounters::disk_hits},
    {"compiled", &KernelCacheCounters::compiled},
    {"absent", &KernelCacheCounters::absent},
    {"corrupt", &KernelCacheCounters::corrupt},
    {"truncated", &KernelCacheCounters::truncated},
    {"other_version", &KernelCacheCounters::other_version},
    {"foreign", &KernelCacheCounters::foreign},
    {"unreadable", &KernelCacheCounters::unreadable},
    {"disabled", &KernelCacheCounters::disabled},
    {"stored", &KernelCacheCounters::stored},
    {"unwritable", &KernelCacheCounters::unwritable},
    {"full", &KernelCacheCounters::full},
    {"evicted", &KernelCacheCounters::evicted},
};

/// The present state of a cache on disk.
struct KernelCacheInfo {
  std::string directory;  ///< empty: no directory
  std::string refusal;    ///< why the cache is not used; empty if it is used
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_max = 0;
  KernelCacheCounters counters;  ///< sums over the processes that used the cache and have ended
};

}  // namespace heddle
#pragma GCC visibility pop
