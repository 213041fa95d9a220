// Intervals of affine indices, in arithmetic that cannot overflow: what a subscript reaches when
// its loop variables run. Pure; any thread.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>

#include "jit/loop.hpp"

namespace heddle::jit {

// __extension__: ISO C++ has no 128-bit integer, and this is the one place that needs the name.
__extension__ typedef __int128 Wide;  // NOLINT: an alias-declaration takes no __extension__

/// Lowest and highest value, both included. Ends saturate at +-2^120, far beyond any extent.
struct Interval {
  Wide lowest = 0;
  Wide highest = 0;

  /// Adds coefficient * [from, to].
  constexpr void add(std::int64_t coefficient, std::int64_t from, std::int64_t to) noexcept {
    const Wide a = static_cast<Wide>(coefficient) * from;
    const Wide b = static_cast<Wide>(coefficient) * to;
    lowest = saturate(lowest + saturate(std::min(a, b)));
    highest = saturate(highest + saturate(std::max(a, b)));
  }
  [[nodiscard]] constexpr bool inside(std::int64_t extent) const noexcept {
    return lowest >= 0 && highest < extent;
  }

 private:
  static constexpr Wide saturate(Wide v) noexcept {
    constexpr Wide end = static_cast<Wide>(1) << 120;
    return std::clamp(v, -end, end);
  }
};

/// The nearest 64-bit number.
constexpr std::int64_t narrow(Wide v) noexcept {
  return static_cast<std::int64_t>(std::clamp<Wide>(v, std::numeric_limits<std::int64_t>::min(),
                                                    std::numeric_limits<std::int64_t>::max()));
}

/// What `index` reaches. `range` gives each term's lowest and highest value as a pair, nullopt
/// where they are unknown: then the whole is.
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
