// Kernels in parts, on the processors that help a device. In a task of that device.
#pragma once

#include <cstddef>
#include <cstdint>

#include "devices/device.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/launch/loaded.hpp"

namespace heddle::rt {

/// Bytes of scratch that a code has on such a device: its own, and behind it what each other part
/// has that may have begun at once.
[[nodiscard]] std::size_t scratch_bytes(const Execution& execution, const jit::Core& core);

/// A kernel, by as many processors at once as it has parts for and as help at the moment, or as the
/// device's mode says (sched::Sharing). `own`: where the scratch begins that others than the
/// device's own thread have; null where it needs none. Of several parts that say something, the
/// first one's words are those of the kernel. Returns once all have ended.
void launch_in_parts(Execution& execution, const dev::Module& module, std::size_t index,
                     const heddle_kernel_args& args, const jit::KernelStep& kernel,
                     std::byte* own) noexcept;
/// The same for a kernel without such scratch, which looks at nothing but memory.
void launch_in_parts(Execution& execution, const dev::Module& module, std::size_t index,
                     const heddle_kernel_args& args, std::uint32_t parts) noexcept;

}  // namespace heddle::rt
