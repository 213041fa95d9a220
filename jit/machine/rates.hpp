// The limits of one processor of this machine, measured now: clock rates and memory speed change,
// hence earlier figures are no bounds. Any thread, preferably on an idle machine.
#pragma once

#include <cstddef>

namespace heddle::jit {

/// f32 multiply-adds in registers, counted as two operations each, in operations per second. Takes
/// some 20 ms.
[[nodiscard]] double measure_peak_operations();
/// Reads `bytes` bytes of memory repeatedly; in bytes per second. Takes some 20 ms, or two passes.
[[nodiscard]] double measure_read_bandwidth(double bytes);
/// Copies `bytes` bytes (a multiple of 256) repeatedly, each counted once; in bytes per second.
/// Both addresses begin at a line. Takes some 20 ms, or two passes.
[[nodiscard]] double measure_copy_bandwidth(void* to, const void* from, std::size_t bytes);
/// The same copy, once and untimed: for threads that copy at the same time.
void copy_lines(void* to, const void* from, std::size_t bytes) noexcept;

}  // namespace heddle::jit
