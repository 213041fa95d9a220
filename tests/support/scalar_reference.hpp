// What an operation gives, computed without the product's primitive functions. Pure.
#pragma once

#include <span>

#include "jit/value/ops.hpp"

namespace heddle::jit::testing {

/// The value of `op`, of type `result`, on operands as type_op() wants them: by op_reference.hpp.
/// What is computed by polynomials (exp, sin, ...) is the product's own value, as its bits are its
/// own; throws std::logic_error where that is not within its bound of math_reference.hpp.
[[nodiscard]] Scalar reference_value(Op op, DType result, std::span<const Scalar> args);

/// `value` converted to `to`: by cast_reference.hpp.
[[nodiscard]] Scalar reference_cast(const Scalar& value, DType to);

}  // namespace heddle::jit::testing
