// How keys are put in order by statements. Pure; any thread.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "heddle/tensor.hpp"

namespace heddle::jit {

/// The type of keys of `dtype` in memory, in rows of `count`: vectors have none of 8 and 16 bits.
[[nodiscard]] DType key_type(DType dtype, std::int64_t count);
/// The statements that make, in `result`, the places along `axis` in rising order of the keys; the
/// first key decides first, and the lower place last. Keys are unsigned, and their last axis is the
/// one in question; none is empty. Short rows are ordered by counting what comes before each
/// element, long ones digit by digit (radix sort, from the lowest digit of the last key on).
[[nodiscard]] std::vector<Statement> order_statements(const Tensor& result, std::size_t axis,
                                                      std::span<const Tensor> keys);

}  // namespace heddle::jit
