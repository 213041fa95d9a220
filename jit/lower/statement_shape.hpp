// Properties of a statement's indices and subscripts that select its loop nest in lower.cpp. Pure;
// any thread.
#pragma once

#include <utility>
#include <vector>

#include "jit/describe/expr.hpp"

namespace heddle::jit {

[[nodiscard]] bool reduces(const std::vector<SpaceAxis>& space);
/// True if an index is missing on the left: an element then has several terms, or none.
[[nodiscard]] bool repeats(const std::vector<SpaceAxis>& space);
/// True if the subscripts of the left side determine its indices, as heddle/program.hpp states:
/// every point of the index space has a separate element.
[[nodiscard]] bool injective(const StatementNode& node, const std::vector<SpaceAxis>& space);
/// True if the statement writes every element of its target.
[[nodiscard]] bool covers(const StatementNode& node, const std::vector<SpaceAxis>& space);
/// Bounds of a static index are derived for a single index at a time, so indices that share a
/// subscript need ranges: throws invalid_argument where an index has none.
void require_ranges(const Tensor& tensor, const std::vector<Subscript>& subscripts);
[[nodiscard]] bool reads_target(const StatementNode& node);
/// The axes of the left side, and the reduced axes.
[[nodiscard]] std::pair<std::vector<SpaceAxis>, std::vector<SpaceAxis>> split(
    const std::vector<SpaceAxis>& space);

}  // namespace heddle::jit
