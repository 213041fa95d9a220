// What one processor of this machine reaches at most, measured here and now: clocks and memory
// wander, so figures of another minute do not bound this one's. One thread.
#pragma once

namespace heddle::tools {

/// f32 multiply-adds in registers, two operations each, in operations per second. Takes some 20 ms.
[[nodiscard]] double measure_peak_operations();
/// Reading memory of so many bytes again and again, bytes per second. Takes some 20 ms, or two
/// passes.
[[nodiscard]] double measure_read_bandwidth(double bytes);

}  // namespace heddle::tools
