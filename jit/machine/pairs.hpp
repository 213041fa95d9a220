// Measures the time of two threads to meet, on a machine with at least two processors. Each
// function starts and ends a thread, and takes some 50 ms; the result is infinite where the two
// threads did not run at once in that time. Throw Error(unavailable) where no thread can be
// started.
#pragma once

namespace heddle::jit {

/// See MachineProfile::line_transfer_ns and part_ns.
[[nodiscard]] double measure_line_transfer_ns();
[[nodiscard]] double measure_part_ns();

}  // namespace heddle::jit
