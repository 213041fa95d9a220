// The counting operator new; apart from its users, so that no call of it is inlined into them.
#include "tests/unit/scheduler/allocation_counter.hpp"

#include <cstdlib>
#include <new>

namespace {
thread_local std::uint64_t count = 0;
}

namespace heddle {
std::uint64_t allocations() noexcept { return count; }
}  // namespace heddle

void* operator new(std::size_t bytes) {
  ++count;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*bytes*/) noexcept { std::free(memory); }
