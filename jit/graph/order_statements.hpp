// Statements that sort keys. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "heddle/tensor.hpp"

namespace heddle::jit {

/// The dtype that stores keys of `dtype` in rows of `count`. Short rows widen 8- and 16-bit keys,
/// because vectors have no elements of 8 and 16 bits.
[[nodiscard]] DType key_type(DType dtype, std::int64_t count);
/// The statements that write to `result` the places along `axis` in rising order of the keys. Equal
/// first keys are ordered by the next key, equal keys by the lower place. Keys are unsigned, are
/// sorted along their last axis, and are not empty. Short rows are sorted by counting the lower
/// elements of each element, long rows by radix sort, from the lowest digit of the last key.
[[nodiscard]] std::vector<Statement> order_statements(const Tensor& result, std::size_t axis,
                                                      std::span<const Tensor> keys);

}  // namespace heddle::jit
