// Counts what each thread allocates, and refuses it where asked to. Linking it replaces operator
// new of the whole program.
#pragma once

#include <cstdint>

namespace heddle {

/// How often the calling thread has called operator new.
[[nodiscard]] std::uint64_t allocations() noexcept;

/// While it lives, the calling thread gets no memory; before that, `granted` more times.
class NoMemory {
 public:
  explicit NoMemory(std::uint64_t granted = 0) noexcept;
  ~NoMemory();
  NoMemory(const NoMemory&) = delete;
  NoMemory& operator=(const NoMemory&) = delete;
};

}  // namespace heddle
