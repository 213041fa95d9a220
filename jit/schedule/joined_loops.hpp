// Joins reduced loops that go over memory in steps of equal size: the rows and colours of an image,
// for example, if colours are contiguous. Pure; any thread.
#pragma once

#include "jit/schedule/lanes.hpp"

namespace heddle::jit {

/// True if a single variable can replace `outer` and `inner` in the term: each load moves as far
/// with an iteration of `outer` as with all iterations of `inner`, or moves with neither.
[[nodiscard]] bool may_join(const Loop& loop, const Value& term, const Stmt& outer,
                            const Stmt& inner);
/// The term, with the inner loop's variable counting the iterations of both loops. Loads that move
/// become flat.
[[nodiscard]] ValuePtr joined_term(const Loop& loop, const ValuePtr& term, const Stmt& outer);

/// The reduction with its loops joined; they are sorted first if only an outer loop reads
/// contiguous memory. From here on only the loops' variables and extents count: their bodies are
/// empty.
[[nodiscard]] Reduction with_joined_loops(const Loop& loop, Reduction r);

}  // namespace heddle::jit
