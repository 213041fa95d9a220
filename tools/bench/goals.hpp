// The performance goals, in one table. Any thread.
#pragma once

#include <span>
#include <string_view>

#include "tools/bench/harness.hpp"

namespace heddle::bench {

struct Goal {
  std::string_view workload;
  std::string_view anchor;  ///< every_rival, or empty for a gauge, which has no anchor
  double at_most;
  Unit unit = Unit::ratio;  ///< for other units the goal is for the subject's own figure
};

/// Each workload with this anchor; the anchor may be absent.
inline constexpr std::string_view every_row = "every row";
/// Each anchor of Kind::rival.
inline constexpr std::string_view every_rival = "every rival";

[[nodiscard]] std::span<const Goal> goals();
/// Null when the row has no goal.
[[nodiscard]] const Goal* goal_for(const Result& row);
/// The figure of `result` that the goal applies to: compare with goal.at_most.
[[nodiscard]] double reached(const Goal& goal, const Result& result);

}  // namespace heddle::bench
