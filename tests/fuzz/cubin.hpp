// What the kernels of a CUBIN use of a GPU.
#pragma once

#include <cstddef>
#include <span>

namespace heddle::jit::testing {

/// The most that a kernel of the image uses, and the instructions of all kernels.
struct CubinUse {
  unsigned registers = 0;     ///< of a thread
  unsigned frame_bytes = 0;   ///< of a thread: arrays and spilled registers in local memory
  unsigned shared_bytes = 0;  ///< of a group, bytes that the system reserves included
  unsigned loads = 0, wide_loads = 0;    ///< of global memory: of fewer bytes than 16, and of 16
  unsigned stores = 0, wide_stores = 0;  ///< as loads
  unsigned copies = 0;                   ///< from global to shared memory, asynchronous
};

/// Throws std::runtime_error for bytes that are no CUBIN. The layout: ELF (System V ABI); the
/// records of `.nv.info` as NVIDIA's cuobjdump prints them: EIATTR_REGCOUNT, EIATTR_FRAME_SIZE.
/// Instructions have 16 bytes from compute capability 7.0 on; their fields as Mesa's compiler NAK
/// writes them (src/nouveau/compiler/nak/sm70_encode.rs: OpLd, OpSt, set_mem_type).
[[nodiscard]] CubinUse use_of(std::span<const std::byte> cubin);

}  // namespace heddle::jit::testing
