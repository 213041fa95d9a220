// The types of numbers that a user writes without a type. Pure; any thread.
#pragma once

#include "jit/value/ops.hpp"

namespace heddle::jit {

/// The type of a literal (bool, i64, u64 or f64) that meets an operand of type `strong`: a fraction
/// makes integers f32, an integer makes bool i32.
[[nodiscard]] DType literal_type(DType strong, DType literal) noexcept;
/// True if the integer (i64, or u64 for values that need it) is a value of the integer `type`.
[[nodiscard]] bool fits(DType type, const Scalar& integer) noexcept;

}  // namespace heddle::jit
