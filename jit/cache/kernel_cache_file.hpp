// Files of the kernel cache: checks of the directory and of files, the format of an entry, and
// atomic writes. Any thread, any number of processes.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/kernel_cache.hpp"
#include "jit/cache/key.hpp"
#include "jit/cache/library.hpp"
#include "jit/system/process.hpp"

namespace heddle::jit {

/// A member of KernelCacheCounters.
using CacheReason = std::uint64_t KernelCacheCounters::*;

/// A problem of a file or directory of the cache.
struct CacheTrouble {
  CacheReason reason = nullptr;  ///< null: no problem
  std::string text;
};

/// The content of an entry.
struct CacheEntry {
  std::string info;  ///< one line for people: unit and compiler
  Library library;
};

/// The cache never touches files of kind `other`.
enum class CacheFileKind : std::uint8_t { entry, temporary, counters, other };
[[nodiscard]] CacheFileKind kind_of_cache_file(std::string_view name) noexcept;
inline constexpr const char* cache_counters_file = "counters";

/// Opens the directory if it belongs to this user alone. `create`: makes the directory and missing
/// parents, with mode 0700.
[[nodiscard]] FileDescriptor open_cache_directory(const std::filesystem::path& path, bool create,
                                                  CacheTrouble& trouble);
/// Opens a file of the directory for reading, if the file is a plain file that no other user may
/// write.
[[nodiscard]] FileDescriptor open_cache_file(int directory, const std::string& name,
                                             CacheTrouble& trouble);

/// The entry called `name` if whole, of this format and undamaged; `use` marks the entry as used.
[[nodiscard]] std::optional<CacheEntry> read_cache_entry(int directory, const std::string& name,
                                                         bool use, CacheTrouble& trouble);
/// Null where owner, header and size agree with a whole entry; otherwise the flaw.
[[nodiscard]] CacheReason flaw_of_entry(int directory, const std::string& name);
/// Header and line of information of an entry; the content follows in the file.
[[nodiscard]] std::vector<std::byte> cache_entry_head(const CompileKey& key, std::string_view info,
                                                      std::span<const std::byte> content);

/// Replaces the file `name` atomically by the joined `parts`.
bool write_cache_file(int directory, const std::string& name,
                      std::span<const std::span<const std::byte>> parts, CacheTrouble& trouble);
/// Removes a temporary file unless its writer is alive; returns true if removed.
bool remove_if_abandoned(int directory, const std::string& name) noexcept;

}  // namespace heddle::jit
