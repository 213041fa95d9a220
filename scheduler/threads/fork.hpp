// Fork detection: workers do not exist in a forked child, so it must be told apart (S14). Any
// thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace heddle::sched {

namespace fork {
extern std::atomic<std::uint32_t> generation;
}

/// From here on forks are counted. Before any is to be noticed; nothing happens before it.
void watch_forks() noexcept;

/// Counts the forks between this process and the first use of heddle.
[[nodiscard]] inline std::uint32_t fork_generation() noexcept {
  // relaxed: pairs with the count in the child handler, made by this very thread's ancestor.
  return fork::generation.load(std::memory_order_relaxed);
}

}  // namespace heddle::sched
