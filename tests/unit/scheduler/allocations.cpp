// The counting operator new; apart from its users, so that no call of it is inlined into them.
#include "tests/unit/scheduler/allocations.hpp"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local std::uint64_t count = 0;
thread_local bool refuses = false;
thread_local std::uint64_t still_granted = 0;
thread_local std::size_t most = ~std::size_t{0};

bool granted(std::size_t bytes) noexcept {
  ++count;
  if (bytes > most) return false;
  if (!refuses || still_granted-- != 0) return true;
  still_granted = 0;
  return false;
}
}  // namespace

namespace heddle {
std::uint64_t allocations() noexcept { return count; }
NoMemory::NoMemory(std::uint64_t granted) noexcept {
  still_granted = granted;
  refuses = true;
}
NoMemory::~NoMemory() { refuses = false; }
NoLargeMemory::NoLargeMemory(std::size_t bytes) noexcept { most = bytes; }
NoLargeMemory::~NoLargeMemory() { most = ~std::size_t{0}; }
}  // namespace heddle

// All forms but the aligned ones: a sanitizer has its own of each.
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return granted(bytes) ? std::malloc(bytes == 0 ? 1 : bytes) : nullptr;
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  const auto step = static_cast<std::size_t>(alignment);
  if (granted(bytes)) {
    if (void* const memory = std::aligned_alloc(step, (bytes + step - 1) / step * step))
      return memory;
  }
  throw std::bad_alloc();
}
void* operator new(std::size_t bytes) {
  if (void* const memory = operator new(bytes, std::nothrow)) return memory;
  throw std::bad_alloc();
}
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& tag) noexcept {
  return operator new(bytes, tag);
}
void operator delete(void* memory, const std::nothrow_t& /*tag*/) noexcept { std::free(memory); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete[](void* memory, const std::nothrow_t& /*tag*/) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
