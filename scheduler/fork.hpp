// Fork detection: workers do not exist in a forked child, so it must be told apart (S14). One word
// that every submit looks at anyhow, so it also says whether submits are traced. Any thread.
#pragma once

#include <atomic>
#include <cstdint>

namespace heddle::sched {

namespace fork {
/// Twice the number of forks, plus 1 while submits are traced.
extern std::atomic<std::uint32_t> generation;
inline constexpr std::uint32_t traced_bit = 1;
}  // namespace fork

/// From here on forks are counted. Before any is to be noticed; nothing happens before it.
void watch_forks() noexcept;

/// Tells this process from the forked ones between it and the first use of heddle.
[[nodiscard]] inline std::uint32_t fork_generation() noexcept {
  // relaxed: pairs with the count in the child handler, made by this very thread's ancestor.
  return fork::generation.load(std::memory_order_relaxed) & ~fork::traced_bit;
}
/// This process is of `generation`, and submits are not traced.
[[nodiscard]] inline bool submits_are_plain(std::uint32_t generation) noexcept {
  // relaxed: as above.
  return fork::generation.load(std::memory_order_relaxed) == generation;
}
[[nodiscard]] inline bool submits_are_traced() noexcept {
  // relaxed: pairs with the next function's; who records looks at the trace itself again.
  return (fork::generation.load(std::memory_order_relaxed) & fork::traced_bit) != 0;
}
void set_submits_traced(bool traced) noexcept;

}  // namespace heddle::sched
