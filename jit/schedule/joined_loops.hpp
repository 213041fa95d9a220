// Reduced loops that go over memory in steps of one size are one loop: over the rows and colours of
// an image, say, if colours lie next to one another. Pure; any thread.
#pragma once

#include "jit/schedule/lanes.hpp"

namespace heddle::jit {

/// Whether the term may be written with one variable in place of `outer` and of `inner`: each load
/// moves by as much with an iteration of `outer` as with all iterations of `inner`, or with
/// neither.
[[nodiscard]] bool may_join(const Loop& loop, const Value& term, const Stmt& outer,
                            const Stmt& inner);
/// The term where the inner one's variable counts the iterations of both. Its loads are flat where
/// they move.
[[nodiscard]] ValuePtr joined_term(const Loop& loop, const ValuePtr& term, const Stmt& outer);

/// The reduction with its loops sorted, where none but an outer one reads memory on end, and
/// joined. Only their variables and extents count from here on: their bodies are empty.
[[nodiscard]] Reduction with_joined_loops(const Loop& loop, Reduction r);

}  // namespace heddle::jit
