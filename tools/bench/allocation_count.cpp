// See allocation_count.hpp. A separate file, so that no call of operator new is inlined into its
// users.
#include "tools/bench/allocation_count.hpp"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace heddle::bench {
namespace {

std::atomic<bool> counting{false};
std::atomic<std::uint64_t> count{0};

void count_if_wanted() noexcept {
  // relaxed, both: the counting thread waits for the counted tasks, which orders the accesses.
  if (counting.load(std::memory_order_relaxed)) count.fetch_add(1, std::memory_order_relaxed);
}

void* memory_of(std::size_t bytes) noexcept {
  count_if_wanted();
  return std::malloc(bytes == 0 ? 1 : bytes);
}

void* aligned_memory_of(std::size_t bytes, std::align_val_t alignment) noexcept {
  count_if_wanted();
  const auto step = static_cast<std::size_t>(alignment);
  return std::aligned_alloc(step, (bytes + step - 1) / step * step);
}

void* or_throw(void* memory) {
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// relaxed, all: see count_if_wanted().
AllocationCount::AllocationCount() noexcept {
  count.store(0, std::memory_order_relaxed);
  counting.store(true, std::memory_order_relaxed);
}
AllocationCount::~AllocationCount() {
  counting.store(false, std::memory_order_relaxed);  // relaxed: as above
}
std::uint64_t AllocationCount::so_far() const noexcept {
  return count.load(std::memory_order_relaxed);  // relaxed: as above
}

}  // namespace heddle::bench

// The array forms call these.
void* operator new(std::size_t bytes) {
  return heddle::bench::or_throw(heddle::bench::memory_of(bytes));
}
void* operator new(std::size_t bytes, const std::nothrow_t& /*tag*/) noexcept {
  return heddle::bench::memory_of(bytes);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return heddle::bench::or_throw(heddle::bench::aligned_memory_of(bytes, alignment));
}
void* operator new(std::size_t bytes, std::align_val_t alignment,
                   const std::nothrow_t& /*tag*/) noexcept {
  return heddle::bench::aligned_memory_of(bytes, alignment);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t /*alignment*/) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/, std::align_val_t /*alignment*/) noexcept {
  std::free(memory);
}
