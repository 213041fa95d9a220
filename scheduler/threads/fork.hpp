// Fork detection: workers do not exist in a forked child, so it must be recognized (S14); and the
// identity of processes. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace heddle::sched {

namespace fork {
extern std::atomic<std::uint32_t> generation;
extern std::atomic<std::uint64_t> process;
}  // namespace fork

/// Starts to count forks. Must be called before the first fork that has to be noticed; earlier
/// forks are not counted.
void watch_forks() noexcept;

/// The number of forks between the first use of heddle and this process.
[[nodiscard]] inline std::uint32_t fork_generation() noexcept {
  // relaxed: pairs with the count in the child handler, made by an ancestor of this very thread.
  return fork::generation.load(std::memory_order_relaxed);
}

/// A random number drawn by this process in watch_forks(); never 0.
[[nodiscard]] inline std::uint64_t process_identity() noexcept {
  // relaxed: pairs with the store of the draw, on this thread or before it began to use heddle;
  // orders no memory.
  return fork::process.load(std::memory_order_relaxed);
}

}  // namespace heddle::sched
