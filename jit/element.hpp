// Reading and writing one element of an array by its dtype. Pure; the caller owns the memory's
// ordering.
#pragma once

#include <cstddef>

#include "jit/ops.hpp"

namespace heddle::jit {

/// Element k of a row-major array of `dtype`, as a Scalar of that dtype.
[[nodiscard]] Scalar load_element(DType dtype, const void* data, std::size_t k) noexcept;
/// Converts `value` to `dtype` as compiled code does, then stores it.
void store_element(DType dtype, void* data, std::size_t k, const Scalar& value) noexcept;

}  // namespace heddle::jit
