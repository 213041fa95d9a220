// Neighbouring elements that a GPU's thread accesses at once. Pure; any thread.
#pragma once

#include <cstdint>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The number of neighbours along `var` whose largest elements fill wide_bytes_max in straight-line
/// code: 2 or more, or 1 where an access is neither to neighbours nor to the same element in all
/// iterations, or where copies of the code would be large.
[[nodiscard]] std::int64_t neighbours_at_once(const Loop& kernel, const Block& body, VarId var);

/// True if the lanes loop is legal, and each access of neighbours in a buffer is wide
/// (loop/wide_access.hpp).
[[nodiscard]] bool accesses_are_wide(const Loop& kernel, const StmtPtr& lanes);

}  // namespace heddle::jit
