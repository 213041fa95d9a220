// A plain interpreter of the loop IR: the yardstick that passes and compilers are held to. Slow and
// obvious on purpose. Pure but for the arrays it is given; the caller orders access to those.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/host_array.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit::testing {

/// Runs `loop` on `buffers` (one per Loop::buffers, of its type) with these static values. Throws
/// std::out_of_range where an access leaves its buffer and std::logic_error where a kernel is
/// illegal otherwise. Operations and conversions are those of scalar_reference.hpp.
void interpret(const Loop& loop, std::span<const HostArray> buffers,
               std::span<const std::int64_t> statics = {});

/// The same in as many parts as `order` has, one after the other in that order, by the kernel ABI;
/// scratch that parts have their own of holds garbage as each begins.
void interpret_in_parts(const Loop& loop, std::span<const HostArray> buffers,
                        std::span<const std::int64_t> statics, std::span<const std::int64_t> order);

/// For each element of each buffer: how far from it results may be that take the sums of loops in
/// another order, or round a product and its sum once: 0 where they have the same bits, infinite
/// where that is not known.
using ElementErrors = std::vector<std::vector<double>>;
/// The same, and what schedules may change of the results.
[[nodiscard]] ElementErrors interpret_bounded(const Loop& loop, std::span<const HostArray> buffers,
                                              std::span<const std::int64_t> statics = {});

/// For arrays of one type: the same bits, any NaN for any other, or no further apart than the
/// errors of `a`.
[[nodiscard]] bool near_elements(const HostArray& a, const HostArray& b,
                                 std::span<const double> errors);

/// Same type and same bits, but that any NaN equals any other.
[[nodiscard]] bool same_elements(const HostArray& a, const HostArray& b);

}  // namespace heddle::jit::testing
