// Counts allocations of all threads of the process. heddle-bench replaces operator new, which
// counts only while a count is active; other rows pay one check of a flag. One thread counts at a
// time.
#pragma once

#include <cstdint>

namespace heddle::bench {

/// Counts from its construction on.
class AllocationCount {
 public:
  AllocationCount() noexcept;
  AllocationCount(const AllocationCount&) = delete;
  AllocationCount& operator=(const AllocationCount&) = delete;
  ~AllocationCount();

  /// Calls of operator new so far, by any thread and any code of the process.
  [[nodiscard]] std::uint64_t so_far() const noexcept;
};

}  // namespace heddle::bench
