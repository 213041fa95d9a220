// A plain interpreter of the loop IR: the reference for passes and compilers. Slow and obvious on
// purpose. Pure but for the given arrays; the caller orders access to them.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/host_array.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit::testing {

/// Runs `loop` on `buffers` (one per Loop::buffers, of its type) with these static values. Throws
/// std::out_of_range where an access leaves its buffer and std::logic_error where a kernel is
/// illegal otherwise. scalar_reference.hpp computes operations and conversions.
void interpret(const Loop& loop, std::span<const HostArray> buffers,
               std::span<const std::int64_t> statics = {});

/// As interpret(), in as many parts as `order` has, run one after the other in that order, by the
/// kernel ABI; scratch that each part owns holds garbage as the part begins.
void interpret_in_parts(const Loop& loop, std::span<const HostArray> buffers,
                        std::span<const std::int64_t> statics, std::span<const std::int64_t> order);

/// For every element of every buffer: the greatest distance of results that take the sums of loops
/// in another order, or round a product and its sum once: 0 where the bits are equal, infinite
/// where the distance is unknown.
using ElementErrors = std::vector<std::vector<double>>;
/// As interpret(); returns how far schedules may change the results.
[[nodiscard]] ElementErrors interpret_bounded(const Loop& loop, std::span<const HostArray> buffers,
                                              std::span<const std::int64_t> statics = {});

/// True where corresponding elements of arrays of one type are equal, are both NaN, or differ by at
/// most the error of `a`'s element.
[[nodiscard]] bool near_elements(const HostArray& a, const HostArray& b,
                                 std::span<const double> errors);

/// True where the elements have one type, and are equal in their order in memory, whatever the
/// dims: a schedule may join axes. Any two NaNs count as equal.
[[nodiscard]] bool same_elements(const HostArray& a, const HostArray& b);

}  // namespace heddle::jit::testing
