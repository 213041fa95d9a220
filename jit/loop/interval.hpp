// Intervals of affine indices, in arithmetic that cannot overflow: the range of a subscript over
// all values of its loop variables. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "jit/loop/loop.hpp"
#include "jit/value/int128.hpp"

namespace heddle::jit {

/// Lowest and highest value, both included. Ends saturate at +-2^120, far beyond any extent.
struct Interval {
  Int128 lowest = 0;
  Int128 highest = 0;

  /// Adds coefficient * [from, to].
  constexpr void add(std::int64_t coefficient, std::int64_t from, std::int64_t to) noexcept {
    const Int128 a = static_cast<Int128>(coefficient) * from;
    const Int128 b = static_cast<Int128>(coefficient) * to;
    lowest = saturate(lowest + saturate(std::min(a, b)));
    highest = saturate(highest + saturate(std::max(a, b)));
  }
  [[nodiscard]] constexpr bool inside(std::int64_t extent) const noexcept {
    return lowest >= 0 && highest < extent;
  }

 private:
  static constexpr Int128 saturate(Int128 v) noexcept {
    constexpr Int128 end = static_cast<Int128>(1) << 120;
    return std::clamp(v, -end, end);
  }
};

/// The nearest 64-bit number.
constexpr std::int64_t narrow(Int128 v) noexcept {
  return static_cast<std::int64_t>(std::clamp<Int128>(v, std::numeric_limits<std::int64_t>::min(),
                                                      std::numeric_limits<std::int64_t>::max()));
}

/// The range of `index`. `range` returns each term's lowest and highest value as a pair, or nullopt
/// where they are unknown: then the result is nullopt.
template <class Range>
[[nodiscard]] std::optional<Interval> reach(const Affine& index, const Range& range) {
  Interval result{index.constant, index.constant};
  for (const AffineTerm& term : index.terms) {
    const auto ends = range(term);
    if (!ends) return std::nullopt;
    result.add(term.coefficient, ends->first, ends->second);
  }
  return result;
}

}  // namespace heddle::jit
