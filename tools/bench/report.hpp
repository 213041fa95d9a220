// The results of a run as a table for people and as JSON for programs. One thread.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "tools/bench/harness.hpp"

namespace heddle::bench {

/// The conditions of the measurement.
struct Machine {
  std::size_t processors = 0;
  double load = 0;          ///< threads that ran or wanted to run, mean of the minute before
  double ping_pong_ns = 0;  ///< see gauge_ping_pong
  double scaling = 0;       ///< see gauge_scaling
  std::vector<std::string> frameworks{};       ///< "torch 2.9.1": the measured ones
  std::vector<std::string> rivals_left_out{};  ///< not built in
};

/// "hop, posted: heddle against bare flag ring"
[[nodiscard]] std::string title(const Result& row);
/// A line for each row, with its goal.
[[nodiscard]] std::string rows_list(std::span<const Result> rows);
[[nodiscard]] std::string results_table(std::span<const Result> results, const Machine& machine);
/// Lines and columns of the results that have both, by anchor: ratios alone; empty without any.
[[nodiscard]] std::string summary_table(std::span<const Result> results);
[[nodiscard]] std::string results_json(std::span<const Result> results, const Machine& machine);

}  // namespace heddle::bench
