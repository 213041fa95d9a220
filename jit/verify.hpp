// The verifier: what a legal loop kernel is. Run between passes and on parsed text. Pure; any
// thread.
#pragma once

#include "heddle/status.hpp"
#include "jit/loop.hpp"

namespace heddle::jit {

/// ok, or invalid_argument naming the statement and the rule it breaks: buffers, statics, variables
/// and locals are declared before use and once; subscripts match the rank and stay inside the
/// extents for all loop values (terms of static indices excluded: signature bounds cover those);
/// dtypes agree; roles are kept (no store to an input or merge buffer); at most one merge buffer;
/// arithmetic only in compute types.
[[nodiscard]] Status verify(const Loop& loop);

}  // namespace heddle::jit
