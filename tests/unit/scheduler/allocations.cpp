// The counting operator new; apart from its users, so that no call of it is inlined into them.
#include "tests/unit/scheduler/allocations.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {
thread_local std::uint64_t count = 0;
thread_local bool refuses = false;
thread_local std::uint64_t still_granted = 0;
thread_local std::size_t most = ~std::size_t{0};

// Of all threads.
enum class Everywhere : unsigned char { all, none, all_but_one };
std::atomic<Everywhere> everywhere{Everywhere::all};
std::atomic<std::uint64_t> granted_to_all{0}, asked_by_all{0};

bool granted_to_any() noexcept {
  const Everywhere what = everywhere.load();
  if (what == Everywhere::all) return true;
  const std::uint64_t before = asked_by_all.fetch_add(1);
  const std::uint64_t limit = granted_to_all.load();
  return what == Everywhere::none ? before < limit : before != limit;
}

bool granted(std::size_t bytes) noexcept {
  ++count;
  if (bytes > most || !granted_to_any()) return false;
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
NoMemoryAnywhere::NoMemoryAnywhere(std::uint64_t granted, bool once) noexcept {
  granted_to_all.store(granted);
  asked_by_all.store(0);
  everywhere.store(once ? Everywhere::all_but_one : Everywhere::none);
}
NoMemoryAnywhere::~NoMemoryAnywhere() { everywhere.store(Everywhere::all); }
std::uint64_t NoMemoryAnywhere::asked() const noexcept { return asked_by_all.load(); }
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
