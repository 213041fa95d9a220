// Padding: maps arguments of many sizes to arguments of few sizes, so that an executor compiles few
// graphs.
#pragma once

#include <cstdint>
#include <source_location>

#include "heddle/array.hpp"
#include "heddle/host_array.hpp"
#include "heddle/types.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// The smallest of `sizes` (in any order) that is at least `extent`. Throws invalid_argument,
/// naming `sizes`, if there is none. Thread-safe.
[[nodiscard]] std::int64_t padded_extent(std::int64_t extent, const Dims& sizes);

/// Extends `axis` (-1 is the last axis) to padded_extent() of its extent, with `value` in the new
/// elements. Throws invalid_argument for an axis that does not exist, for a value that the type
/// cannot represent (floats are rounded), and as padded_extent().
[[nodiscard]] HostArray padded(const HostArray& array, std::int64_t axis, const Dims& sizes,
                               double value = 0);
/// Pads with zeros, on the array's device: copies on the device's timeline, a copy for every index
/// of the axes before `axis`. Does not wait. Also throws as Array::copy_to().
[[nodiscard]] Array padded(const Array& array, std::int64_t axis, const Dims& sizes,
                           std::source_location where = std::source_location::current());

}  // namespace heddle
#pragma GCC visibility pop
