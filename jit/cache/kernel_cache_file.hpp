// The files of the kernel cache: the checks of directory and files, the format of an entry, writing
// that readers never see half-done. Any thread, any number of processes.
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

/// One of KernelCacheCounters.
using CacheReason = std::uint64_t KernelCacheCounters::*;

/// What went wrong with a file or directory of the cache.
struct CacheTrouble {
  CacheReason reason = nullptr;  ///< null: nothing
  std::string text;
};

/// What an entry holds.
struct CacheEntry {
  std::string info;  ///< one line for people: unit and compiler
  Library library;
};

/// Files that the cache does not know are left alone.
enum class CacheFileKind : std::uint8_t { entry, temporary, counters, other };
[[nodiscard]] CacheFileKind kind_of_cache_file(std::string_view name) noexcept;
inline constexpr const char* cache_counters_file = "counters";

/// The directory, if it is ours alone; made when asked to, with what is missing above it, all of
/// mode 0700.
[[nodiscard]] FileDescriptor open_cache_directory(const std::filesystem::path& path, bool create,
                                                  CacheTrouble& trouble);
/// A file in it for reading, if it is a plain one that nobody else may write.
[[nodiscard]] FileDescriptor open_cache_file(int directory, const std::string& name,
                                             CacheTrouble& trouble);

/// The entry called `name` if it is whole, of this format and undamaged; marked as used when `use`.
[[nodiscard]] std::optional<CacheEntry> read_cache_entry(int directory, const std::string& name,
                                                         bool use, CacheTrouble& trouble);
/// Null where owner, head and size are those of a whole entry; else what is wrong with it.
[[nodiscard]] CacheReason flaw_of_entry(int directory, const std::string& name);
/// Header and line of information of an entry; its content follows them in the file.
[[nodiscard]] std::vector<std::byte> cache_entry_head(const CompileKey& key, std::string_view info,
                                                      std::span<const std::byte> content);

/// Puts a file of the joined `parts` in the place of what was called `name`, all at once.
bool write_cache_file(int directory, const std::string& name,
                      std::span<const std::span<const std::byte>> parts, CacheTrouble& trouble);
/// Removes a temporary file unless its writer lives. Whether it did.
bool remove_if_abandoned(int directory, const std::string& name) noexcept;

}  // namespace heddle::jit
