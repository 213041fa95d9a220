// What the kernels of a CUBIN use of a GPU.
#pragma once

#include <cstddef>
#include <span>

namespace heddle::jit::testing {

/// The most that a kernel of the image uses.
struct CubinUse {
  unsigned registers = 0;     ///< of a thread
  unsigned frame_bytes = 0;   ///< of a thread: arrays and spilled registers in local memory
  unsigned shared_bytes = 0;  ///< of a group, bytes that the system reserves included
};

/// Throws std::runtime_error for bytes that are no CUBIN. The layout: ELF (System V ABI); the
/// records of `.nv.info` as NVIDIA's cuobjdump prints them: EIATTR_REGCOUNT, EIATTR_FRAME_SIZE.
[[nodiscard]] CubinUse use_of(std::span<const std::byte> cubin);

}  // namespace heddle::jit::testing
