// Computed positions: the checks that keep them in range. Pure; any thread.
#pragma once

#include <cstdint>
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

}  // namespace heddle::jit
