// Results of operations, computed without the product's primitive functions. Pure.
#pragma once

#include <span>

#include "jit/value/ops.hpp"

namespace heddle::jit::testing {

/// The value of `op`, of type `result`, on operands with types that type_op() accepts: by
/// op_reference.hpp. For polynomial operations (exp, sin, ...) returns the product's own value,
/// because the bits are implementation-defined; throws std::logic_error where the value exceeds the
/// bound of math_reference.hpp.
[[nodiscard]] Scalar reference_value(Op op, DType result, std::span<const Scalar> args);

/// `value` converted to `to`: by cast_reference.hpp.
[[nodiscard]] Scalar reference_cast(const Scalar& value, DType to);

}  // namespace heddle::jit::testing
