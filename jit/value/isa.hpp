// Instruction sets. Values.
#pragma once

#include <cstdint>

namespace heddle::jit {

/// Instructions that emitters may write explicitly; the compiler chooses all others. A set includes
/// all earlier sets.
enum class Isa : std::uint8_t {
  none,         ///< no vectors at all: lanes loops run as plain loops
  portable,     ///< vector types of 16 bytes; SSE2, NEON and others
  avx2,         ///< with FMA
  avx512,       ///< F, BW, DQ and VL
  avx512_vnni,  ///< sums of products of 8 and 16 bits
  avx512_bf16,  ///< sums of products of bf16
};

}  // namespace heddle::jit
