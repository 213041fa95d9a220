// The environment: the only place that reads it. Malformed values throw invalid_argument. Any
// thread (while nobody calls setenv).
#pragma once

#include <string>
#include <string_view>

#include "heddle/backend.hpp"
#include "jit/cache/kernel_cache.hpp"

namespace heddle::rt {

/// What is not set in `options` comes from the environment; so does the log level, from HEDDLE_LOG,
/// unless the program has set one.
[[nodiscard]] BackendOptions with_environment(BackendOptions options);
/// `options` were completed; where they ask for no cache, its directory is empty.
[[nodiscard]] jit::KernelCache::Options kernel_cache_options(const BackendOptions& options);
/// A word that means the same in any case, in small letters.
[[nodiscard]] std::string lower(std::string_view text);
/// The temporary directory when none is set: TMPDIR, else /tmp.
[[nodiscard]] std::string default_temp_dir();

}  // namespace heddle::rt
