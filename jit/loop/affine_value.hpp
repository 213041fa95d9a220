// Integer values that are affine in the loop variables, at least between two changes of a
// comparison inside the value: index(i) - 1, clamp(i + 1, 0, 9), (i + 7) mod 8; (2 j + k) / 2 is j
// for k in 0..2. Pure; any thread.
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

/// The cuts of a loop that make values affine in each part: the first value of the loop variable in
/// each part but the first; or the periods that make quotients and remainders affine, as of i / 2.
struct Cuts {
  VarId var = 0;
  std::set<std::int64_t> at{};
  std::int64_t period = 1;  ///< 1: none
  std::int64_t phase = 0;   ///< periods begin where var + phase is a multiple of the period
};

/// The range of an index; none where it contains a static index, or a variable without a range.
[[nodiscard]] std::optional<Interval> reach(const Affine& index, const LoopRanges& ranges);
/// Adds the value of cuts.var at the change of `index` from below `limit` to `limit` or more, or
/// back, if the value is within the variable's range. Adds nothing if the index contains further
/// variables.
void add_cut(const Affine& index, std::int64_t limit, const LoopRanges& ranges, Cuts& cuts);

/// The value as an affine index, equal for all values of the loop variables; none where an
/// operation may wrap, or a comparison or a quotient changes. Changes by a single variable add to
/// `cuts`, unless `cuts` is null.
[[nodiscard]] std::optional<Affine> affine_value(const Value& value, const LoopRanges& ranges,
                                                 Cuts* cuts = nullptr);

}  // namespace heddle::jit
