// What one processor of this machine reaches at most, measured here and now: clocks and memory
// wander, so figures of another minute do not bound this one's. Any thread, and best alone.
#pragma once

#include <cstddef>

namespace heddle::jit {

/// f32 multiply-adds in registers, two operations each, in operations per second. Takes some 20 ms.
[[nodiscard]] double measure_peak_operations();
/// Reading memory of so many bytes again and again, bytes per second. Takes some 20 ms, or two
/// passes.
[[nodiscard]] double measure_read_bandwidth(double bytes);
/// Copying so many bytes (a multiple of 256) again and again, each counting once, bytes per second.
/// Both begin at a line. Takes some 20 ms, or two passes.
[[nodiscard]] double measure_copy_bandwidth(void* to, const void* from, std::size_t bytes);
/// The same once, unmeasured: for threads that copy at once.
void copy_lines(void* to, const void* from, std::size_t bytes) noexcept;

}  // namespace heddle::jit
