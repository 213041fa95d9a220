// Checks of users' element types; reading and writing an element of an array by its dtype. Pure;
// the caller owns the memory's ordering.
#pragma once

#include <cstddef>
#include <string_view>

#include "jit/value/ops.hpp"

namespace heddle::jit {

/// Throws invalid_argument naming `what` for a number that is no DType.
void require_dtype(std::string_view what, DType dtype);
/// The problem with a number that is no DType, and the expected types; empty for a DType.
[[nodiscard]] std::string dtype_problem(DType dtype);

/// Element k of a row-major array of `dtype`, as a Scalar of that dtype.
[[nodiscard]] Scalar load_element(DType dtype, const void* data, std::size_t k) noexcept;
/// Converts `value` to `dtype` as compiled code does, then stores it.
void store_element(DType dtype, void* data, std::size_t k, const Scalar& value) noexcept;

}  // namespace heddle::jit
