// A plain interpreter of the loop IR: the yardstick that passes and compilers are held to. Slow and
// obvious on purpose. Pure but for the arrays it is given; the caller orders access to those.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heddle/host_array.hpp"
#include "jit/loop.hpp"

namespace heddle::jit::testing {

/// Runs `loop` on `buffers` (one per Loop::buffers, of its type) with these static values. Throws
/// std::out_of_range where an access leaves its buffer and std::logic_error where a kernel is
/// illegal otherwise. Operations are those of primitives.hpp, whose meaning ops_test.cpp checks.
void interpret(const Loop& loop, std::span<const HostArray> buffers,
               std::span<const std::int64_t> statics = {});

/// Same type and same bits, but that any NaN equals any other.
[[nodiscard]] bool same_elements(const HostArray& a, const HostArray& b);

}  // namespace heddle::jit::testing
