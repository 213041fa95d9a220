// Fork detection: workers do not exist in a forked child, so it must be told apart (S14); and what
// tells processes apart. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace heddle::sched {

namespace fork {
extern std::atomic<std::uint32_t> generation;
extern std::atomic<std::uint64_t> process;
}  // namespace fork

/// From here on forks are counted. Before any is to be noticed; nothing happens before it.
void watch_forks() noexcept;

/// Counts the forks between this process and the first use of heddle.
[[nodiscard]] inline std::uint32_t fork_generation() noexcept {
  // relaxed: pairs with the count in the child handler, made by this very thread's ancestor.
  return fork::generation.load(std::memory_order_relaxed);
}

/// A number that this process drew at random, in watch_forks(); never 0.
[[nodiscard]] inline std::uint64_t process_identity() noexcept {
  // relaxed: drawn by this thread, or before it began to use heddle; orders nothing.
  return fork::process.load(std::memory_order_relaxed);
}

}  // namespace heddle::sched
