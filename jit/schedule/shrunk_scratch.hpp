// Scratch that lives for one iteration of a loop. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "jit/lower/lower.hpp"

namespace heddle::jit {

/// For each buffer, an axis.
using ShrunkAxes = std::map<BufferId, std::size_t>;
/// The statement, which subscripts these axes by `place` instead.
[[nodiscard]] StmtPtr with_axes_at(const StmtPtr& stmt, const ShrunkAxes& axes,
                                   const Affine& place);
/// Sets the extent of an axis of scratch.
void set_extent(Lowered& lowered, BufferId buffer, std::size_t axis, std::int64_t extent);
/// Leaves one element of scratch that nothing accesses any more.
void leave_one_element(Lowered& lowered, BufferId buffer);

/// Shrinks scratch to the part that is in use at a time, which stays in cache: one row where each
/// iteration of a single outer loop uses a row of its own, or computes its row from the row before,
/// element by element.
void shrink_scratch(Lowered& lowered);

}  // namespace heddle::jit
