// Integer values that are affine in the loop variables, at least between the values of a variable
// at which a comparison in them changes: index(i) - 1, clamp(i + 1, 0, 9), (i + 7) mod 8. Pure; any
// thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "jit/loop/interval.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {

/// The values of loop variables: from, to (half-open).
using LoopRanges = std::map<VarId, std::pair<std::int64_t, std::int64_t>>;

/// Where a loop may be cut so that values become affine in each part: the values of its variable at
/// which a part begins.
struct Cuts {
  VarId var = 0;
  std::set<std::int64_t> at{};
};

/// The range of an index; none where it contains a static index, or a variable without a range.
[[nodiscard]] std::optional<Interval> reach(const Affine& index, const LoopRanges& ranges);
/// Adds the value of cuts->var, if there is one within its range, at which `index` passes from
/// below `limit` to at least `limit`, or back. Nothing is added if other variables occur in the
/// index.
void add_cut(const Affine& index, std::int64_t limit, const LoopRanges& ranges, Cuts& cuts);

/// The value as an affine index, if it is equal to one for all values of the loop variables: no
/// operation wraps, and each comparison has the same result for all of them. Other comparisons of a
/// single variable add to `cuts`, unless it is null.
[[nodiscard]] std::optional<Affine> affine_value(const Value& value, const LoopRanges& ranges,
                                                 Cuts* cuts = nullptr);

}  // namespace heddle::jit
