// `heddle cache`: listing, verifying and pruning the kernel cache. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/kernel_cache.hpp"

namespace heddle::tools {

enum class CacheAction : std::uint8_t { list, verify, prune, clear };

struct CacheReport {
  std::string text;
  bool ok = true;  ///< no damage found, and every entry chosen for removal was removed
};

/// Runs the command, and reports the result in words, or as JSON. `bytes_max`: for prune; default:
/// the bound of the settings. Throws Error: unavailable when the directory is not to be trusted,
/// failed_precondition when the cache is switched off.
[[nodiscard]] CacheReport run_cache_action(CacheAction action, const std::uint64_t* bytes_max,
                                           bool json, bool colour);

/// "12.3 MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
/// The cache's location, size, and counts of compiles, for `heddle info`.
[[nodiscard]] std::string kernel_cache_text(const KernelCacheInfo& info);

}  // namespace heddle::tools
