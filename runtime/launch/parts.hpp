// Runs kernels in parts, on the processors of a device's helpers. Called in a task of the device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "devices/device.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/launch/loaded.hpp"

namespace heddle::rt {

/// Bytes of scratch for code on the device: the code's own, followed by the private scratch of
/// every further part that may run at once.
[[nodiscard]] std::size_t scratch_bytes(const Execution& execution, const jit::Core& core);

/// Runs a kernel in parts, on up to `kernel.parts` processors at once: the current helpers', or as
/// the device's mode says (sched::Sharing). `own`: start of the scratch private to threads other
/// than the device's own; null: none needed. The kernel's status is the status of the first part
/// with a nonzero code. Returns when every part has ended.
void launch_in_parts(Execution& execution, const dev::Module& module, std::size_t index,
                     const heddle_kernel_args& args, const jit::KernelStep& kernel,
                     std::byte* own) noexcept;
/// Likewise, for a kernel without private scratch and with no inputs but memory and static indices.
void launch_in_parts(Execution& execution, const dev::Module& module, std::size_t index,
                     const heddle_kernel_args& args, std::uint32_t parts) noexcept;

}  // namespace heddle::rt
