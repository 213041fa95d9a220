// Computed positions: the checks that keep them in range. Pure; any thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The ends of a position's range, both inclusive, in the type of the computed value; none where
/// the type has no values beyond that end.
struct PositionBounds {
  std::optional<Scalar> lowest, highest;
  /// Set where the type has no value in the range: the value of the range that is nearest to all
  /// values of the type.
  std::optional<std::int64_t> only;
};
/// The bounds of a StmtKind::at with a non-empty range.
[[nodiscard]] PositionBounds position_bounds(const Stmt& at);
/// The value of a nearest position, i32 or i64, brought into its range; null for other positions,
/// and for a range outside the type.
[[nodiscard]] ValuePtr value_in_range(const Stmt& at);

/// The lowest and the highest value of a buffer's elements.
struct ElementRange {
  std::int64_t lowest = 0, highest = 0;
};
/// The ranges of scratch of which every element is stored as min(max(x, lowest), highest) of
/// constants of its type, i32 or i64.
[[nodiscard]] std::map<BufferId, ElementRange> ranges_of_scratch(const Loop& loop);
/// True if the position's value is an element of such scratch, and its range needs no check.
[[nodiscard]] bool stays_inside(const Stmt& at, const std::map<BufferId, ElementRange>& ranges);

}  // namespace heddle::jit
