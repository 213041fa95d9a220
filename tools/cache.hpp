// `heddle cache`: what is in the kernel cache, and tidying it. One thread.
#pragma once

#include <cstdint>
#include <string>

#include "heddle/kernel_cache.hpp"

namespace heddle::tools {

enum class CacheAction : std::uint8_t { list, verify, prune, clear };

struct CacheReport {
  std::string text;
  bool ok = true;  ///< nothing was found damaged, and all that was to go is gone
};

/// Does it, and says what was done: in words, or as JSON. `bytes_max`: for prune, the bound of the
/// settings unless given. Throws Error: unavailable when the directory is not to be trusted,
/// failed_precondition when the cache is switched off.
[[nodiscard]] CacheReport run_cache_action(CacheAction action, const std::uint64_t* bytes_max,
                                           bool json, bool colour);

/// "12.3 MiB".
[[nodiscard]] std::string bytes_text(std::uint64_t bytes);
/// Where it is, how full, and what became of compiles, for `heddle info`.
[[nodiscard]] std::string kernel_cache_text(const KernelCacheInfo& info);

}  // namespace heddle::tools
