// What a statement's indices and subscripts tell of the way it runs: which of the loop nests of
// lower.cpp it becomes. Pure; any thread.
#pragma once

#include <utility>
#include <vector>

#include "jit/describe/expr.hpp"

namespace heddle::jit {

[[nodiscard]] bool reduces(const std::vector<SpaceAxis>& space);
/// An index that is missing on the left gives an element several terms, or none.
[[nodiscard]] bool repeats(const std::vector<SpaceAxis>& space);
/// The left side's indices can be told from its subscripts, as heddle/program.hpp says: each
/// point of their space has an element of its own.
[[nodiscard]] bool injective(const StatementNode& node, const std::vector<SpaceAxis>& space);
/// The statement writes every element of its target.
[[nodiscard]] bool covers(const StatementNode& node, const std::vector<SpaceAxis>& space);
/// Bounds of a static index are found one index at a time, so those that share a subscript need
/// ranges: throws invalid_argument where one has none.
void require_ranges(const Tensor& tensor, const std::vector<Subscript>& subscripts);
[[nodiscard]] bool reads_target(const StatementNode& node);
/// Axes of the left side, and those that are reduced.
[[nodiscard]] std::pair<std::vector<SpaceAxis>, std::vector<SpaceAxis>> split(
    const std::vector<SpaceAxis>& space);

}  // namespace heddle::jit
