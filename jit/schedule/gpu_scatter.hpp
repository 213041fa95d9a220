// Scatters on a GPU: nests that accumulate in elements which several iterations may meet. Pure; any
// thread.
#pragma once

#include "jit/loop/loop.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

/// The nest with atomic stores to each buffer that it accesses by accumulations alone, and with
/// computed positions inside the loops over their rows, so that these loops may be shared out too.
/// Null: the nest has no such buffer. Whether iterations may run at once is left to
/// shared_by_iterations(): accumulations may be of several operations.
[[nodiscard]] StmtPtr with_atomic_accumulations(const StmtPtr& nest, const Target& target);

}  // namespace heddle::jit
