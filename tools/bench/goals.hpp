// What is to be reached, in one table. Any thread.
#pragma once

#include <span>
#include <string_view>

#include "tools/bench/harness.hpp"

namespace heddle::bench {

struct Goal {
  std::string_view workload;
  std::string_view anchor;  ///< every_rival, or empty: a gauge's, which has none
  double at_most;
  Unit unit = Unit::ratio;  ///< else the goal is for the subject's own figure
};

/// Each workload with this anchor, which need not be there.
inline constexpr std::string_view every_row = "every row";
/// Each anchor of Kind::rival.
inline constexpr std::string_view every_rival = "every rival";

[[nodiscard]] std::span<const Goal> goals();
/// Null when there is none for this row.
[[nodiscard]] const Goal* goal_for(const Result& row);
/// What of `result` the goal is for: compare it to goal.at_most.
[[nodiscard]] double reached(const Goal& goal, const Result& result);

}  // namespace heddle::bench
