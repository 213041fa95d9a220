// Counts what each thread allocates, and refuses it where asked to: to one thread or to all.
// Linking it replaces operator new of the whole program.
#pragma once

#include <cstddef>
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

/// While it lives, no thread of the process gets memory; before that, all together get so many
/// blocks. One at a time.
class NoMemoryAnywhere {
 public:
  /// `once`: only the next block is refused.
  explicit NoMemoryAnywhere(std::uint64_t granted, bool once) noexcept;
  ~NoMemoryAnywhere();
  NoMemoryAnywhere(const NoMemoryAnywhere&) = delete;
  NoMemoryAnywhere& operator=(const NoMemoryAnywhere&) = delete;
  /// How many blocks were asked for so far.
  [[nodiscard]] std::uint64_t asked() const noexcept;
};

/// While it lives, the calling thread gets no block of more than so many bytes.
class NoLargeMemory {
 public:
  explicit NoLargeMemory(std::size_t bytes) noexcept;
  ~NoLargeMemory();
  NoLargeMemory(const NoLargeMemory&) = delete;
  NoLargeMemory& operator=(const NoLargeMemory&) = delete;
};

}  // namespace heddle
