// How often all threads of the process ask for memory. heddle-bench has an operator new of its own
// for that, which counts only while somebody wants to know: to the other rows it costs a look at a
// flag. One thread counts at a time.
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

  /// Calls of operator new, whichever thread's and wherever in the process, so far.
  [[nodiscard]] std::uint64_t so_far() const noexcept;
};

}  // namespace heddle::bench
