// Padding: arguments of many sizes as arguments of few, so that an executor compiles few graphs.
#pragma once

#include <cstdint>
#include <source_location>

#include "heddle/array.hpp"
#include "heddle/host_array.hpp"
#include "heddle/types.hpp"

#pragma GCC visibility push(default)
namespace heddle {

/// The least of `sizes`, in any order, that is at least `extent`. Throws invalid_argument, naming
/// them, where there is none. Any thread.
[[nodiscard]] std::int64_t padded_extent(std::int64_t extent, const Dims& sizes);

/// The same elements, and `value` behind them along `axis`, which has the next of these sizes; -1
/// is the last axis. Throws invalid_argument for an axis that is none, for a value that the type
/// does not hold (floats are rounded), and as padded_extent().
[[nodiscard]] HostArray padded(const HostArray& array, std::int64_t axis, const Dims& sizes,
                               double value = 0);
/// The same on the array's device, with zeros: copies that its timeline makes, one for each index
/// of the axes before `axis`. Nobody waits for them here. Throws as Array::copy_to() too.
[[nodiscard]] Array padded(const Array& array, std::int64_t axis, const Dims& sizes,
                           std::source_location where = std::source_location::current());

}  // namespace heddle
#pragma GCC visibility pop
