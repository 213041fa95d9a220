// The operations of class `words` (value/ops.hpp) as primitive functions. Pure.
#pragma once

#include "jit/value/ops.hpp"
#include "jit/value/primitive_builder.hpp"

namespace heddle::jit {

/// What Op::dot_bf16 takes for 0, in magnitude, lies below this: halfway from the largest subnormal
/// number of 24 bits to the least normal one.
inline constexpr double flushed_below = 0x1p-126 - 0x1p-151;

/// By the instructions that the builder has, else by others to the same bits. An operation of two
/// operands ignores `third`.
[[nodiscard]] PrimValue words_op(Op op, PrimValue first, PrimValue second, PrimValue third);

}  // namespace heddle::jit
