// The operations of class `words` (value/ops.hpp) as primitive functions. Pure.
#pragma once

#include "jit/value/ops.hpp"
#include "jit/value/primitive_builder.hpp"

namespace heddle::jit {

/// Op::dot_bf16 takes results with a magnitude below this for 0: the value is halfway between the
/// largest subnormal number of 24 bits and the least normal number.
inline constexpr double flushed_below = 0x1p-126 - 0x1p-151;

/// Uses the instructions that the builder permits, otherwise others with the same bits. An
/// operation of two operands ignores `third`.
[[nodiscard]] PrimValue words_op(Op op, PrimValue first, PrimValue second, PrimValue third);

}  // namespace heddle::jit
