// allocate_host(): allocates host memory for arrays, as HostArray and the CPU device do, also for
// backends of your own. Thread-safe.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>

#include "heddle/requires.hpp"

#pragma GCC visibility push(default)
namespace heddle {

inline constexpr std::size_t host_alignment = 64;
/// The bytes mapped by one entry of the second-level page table, on x86-64 and on aarch64 with 4
/// KiB pages.
inline constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;

/// Allocates at least `bytes`, aligned to host_alignment; null if no memory is available. Contents
/// are arbitrary. Release with std::free.
///
/// Memory of at least two huge pages begins on a huge page, and the system is asked to use huge
/// pages (madvise(2), MADV_HUGEPAGE; a refusal is harmless): otherwise loops that stride over rows
/// wait for page tables. Only whole huge pages are requested, so no more memory is touched.
[[nodiscard]] inline void* allocate_host(std::size_t bytes) noexcept {
  const bool huge = bytes >= 2 * huge_page_bytes;
  const std::size_t alignment = huge ? huge_page_bytes : host_alignment;
  const std::size_t rounded =
      bytes == 0 ? host_alignment : (bytes + host_alignment - 1) / host_alignment * host_alignment;
  if (rounded < bytes) return nullptr;
  void* data = nullptr;  // aligned_alloc() accepts only multiples of the alignment
  if (::posix_memalign(&data, alignment, rounded) != 0) return nullptr;
  if (huge)
    static_cast<void>(::madvise(data, bytes / huge_page_bytes * huge_page_bytes, MADV_HUGEPAGE));
  return data;
}

}  // namespace heddle
#pragma GCC visibility pop
