// An array whose elements begin as zero bytes, in pages that the system provides on first touch:
// untouched pages cost no memory. The owner is responsible for thread-safety.
#pragma once

#include <sys/mman.h>

#include <cstddef>
#include <new>

#include "scheduler/sanitizers.hpp"
#ifdef HEDDLE_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace heddle::sched {

/// For types with zero bytes as a valid initial state. Destructors of elements are not called: the
/// array's owner leaves no members to destroy.
template <class T>
class ZeroedArray {
 public:
  /// Throws std::bad_alloc.
  explicit ZeroedArray(std::size_t count) : bytes_(count * sizeof(T)) {
    void* const pages =
        ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (pages == MAP_FAILED) throw std::bad_alloc();
    first_ = static_cast<T*>(pages);
#ifdef HEDDLE_ASAN
    __lsan_register_root_region(first_, bytes_);  // memory held by tasks is not leaked
#endif
  }
  ~ZeroedArray() {
#ifdef HEDDLE_ASAN
    __lsan_unregister_root_region(first_, bytes_);
#endif
    ::munmap(first_, bytes_);
  }
  ZeroedArray(const ZeroedArray&) = delete;
  ZeroedArray& operator=(const ZeroedArray&) = delete;

  [[nodiscard]] T& operator[](std::size_t at) noexcept { return first_[at]; }
  [[nodiscard]] const T& operator[](std::size_t at) const noexcept { return first_[at]; }

 private:
  const std::size_t bytes_;
  T* first_;
};

}  // namespace heddle::sched
