// Computed positions: what keeps them inside. Pure; any thread.
#pragma once

#include <cstdint>
#include <optional>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The ends of a position's range, both inclusive, as values of the type that it is computed in;
/// none where that type holds nothing beyond.
struct PositionBounds {
  std::optional<Scalar> lowest, highest;
  /// The type holds nothing that is inside: what of the range is nearest to all that it holds.
  std::optional<std::int64_t> only;
};
/// Of a StmtKind::at with a range that is not empty.
[[nodiscard]] PositionBounds position_bounds(const Stmt& at);

}  // namespace heddle::jit
