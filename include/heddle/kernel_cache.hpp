// What the cache of compiled kernels did: counters for programs and people. Values; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// How often compiling ended in which way (J11). A unit is what one call of the compiler makes. The
/// first group counts units asked for, each by one of its counters; the second says why units were
/// not taken from disk, the third what became of those that were to be kept.
struct KernelCacheCounters {
  std::uint64_t memory_hits = 0;  ///< found in memory: its image, or the program itself
  std::uint64_t shared = 0;       ///< another thread was compiling the same
  std::uint64_t disk_hits = 0;    ///< found on disk
  std::uint64_t compiled = 0;     ///< made by the compiler

  std::uint64_t absent = 0;         ///< there was no entry
  std::uint64_t corrupt = 0;        ///< its checksum, key or library was wrong
  std::uint64_t truncated = 0;      ///< it was cut short
  std::uint64_t other_version = 0;  ///< its format is of another heddle
  std::uint64_t foreign = 0;  ///< entry or directory is another user's, open to others, or a link
  std::uint64_t unreadable = 0;  ///< the system refused
  std::uint64_t disabled = 0;    ///< switched off, or code that is for certain addresses only

  std::uint64_t stored = 0;      ///< kept
  std::uint64_t unwritable = 0;  ///< the system refused
  std::uint64_t full = 0;        ///< no space left, or larger than the cache may be
  std::uint64_t evicted = 0;     ///< entries that went, least recently used first
};

/// A counter and its name; kernel_cache_counters has all of them, in order.
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

/// A cache on disk as it stands.
struct KernelCacheInfo {
  std::string directory;  ///< empty: there is none
  std::string refusal;    ///< why it is not used; empty: it is
  std::uint64_t entries = 0;
  std::uint64_t bytes = 0;
  std::uint64_t bytes_max = 0;
  KernelCacheCounters counters;  ///< sums over all processes that used it and ended
};

}  // namespace heddle
#pragma GCC visibility pop
