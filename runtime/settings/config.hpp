// Reads the environment variables of heddle into options. Malformed values throw invalid_argument.
// Any thread (while no thread calls setenv).
#pragma once

#include <string>
#include <string_view>

#include "heddle/backend.hpp"
#include "jit/cache/kernel_cache.hpp"

namespace heddle::rt {

/// Fills options that are not set from the environment. Also sets the log level from HEDDLE_LOG,
/// unless the program has set a level.
[[nodiscard]] BackendOptions with_environment(BackendOptions options);
/// Precondition: with_environment() has completed `options`. If they ask for no cache, the
/// directory is empty.
[[nodiscard]] jit::KernelCache::Options kernel_cache_options(const BackendOptions& options);
/// The text in lower case, for words whose case does not matter.
[[nodiscard]] std::string lower(std::string_view text);
/// The default temporary directory: TMPDIR, otherwise /tmp.
[[nodiscard]] std::string default_temp_dir();

}  // namespace heddle::rt
