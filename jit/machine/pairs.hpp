// What two threads take to meet, on a machine of two processors or more. Each starts a thread and
// ends it, and takes some 50 ms; infinite where the two did not run at once in that time. Throw
// Error(unavailable) where no thread can be started.
#pragma once

namespace heddle::jit {

/// See MachineProfile::line_transfer_ns and part_ns.
[[nodiscard]] double measure_line_transfer_ns();
[[nodiscard]] double measure_part_ns();

}  // namespace heddle::jit
