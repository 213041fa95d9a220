// The part that the benchmark programs share: options, and the measurement of rows with its
// printing. One thread.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

#include "tools/bench/report.hpp"

namespace heddle::bench {

struct Measuring {
  std::string json;
  bool list = false;
  Plan plan;
};

void add_options(CLI::App& app, Measuring& options);

/// The rows, before their measurement.
[[nodiscard]] std::vector<Result> heads_of(const std::vector<Row>& rows);

/// Measures the rows, and prints the table. A row whose rival or GPU cannot be used here is left
/// out. `complete` adds what is known of rivals after the measurement. Throws Error of other rows,
/// and not_found when the file of --json cannot be written.
void measure_rows(std::vector<Row> rows, const Measuring& options,
                  const std::function<void(Machine&)>& complete);

}  // namespace heddle::bench
