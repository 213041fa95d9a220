// Counts what each thread allocates. Linking it replaces operator new of the whole program.
#pragma once

#include <cstdint>

namespace heddle {

/// How often the calling thread has called operator new.
[[nodiscard]] std::uint64_t allocations() noexcept;

}  // namespace heddle
