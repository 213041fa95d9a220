// See measuring.hpp.
#include "tools/bench/measuring.hpp"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <utility>
#include <variant>

#include "heddle/status.hpp"
#include "tools/bench/processors.hpp"

namespace heddle::bench {
namespace {

double load_before() {
  double load = 0;
  if (getloadavg(&load, 1) != 1) return 0;
  if (load > 0.5) {
    fmt::print(stderr,
               "heddle-bench: other programs keep the machine busy (load {:.2f}): ratios of what "
               "waits for another thread mean little\n",
               load);
  }
  return load;
}

template <class Which>
void measure_or_leave_out(const Which& which, const Plan& plan, std::vector<Result>& results) {
  fmt::print(stderr, "{}\n", title(head_of(which)));
  try {
    results.push_back(measure(which, plan));
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unavailable) throw;
    fmt::print(stderr, "  left out: {}\n", error.what());
  }
}

}  // namespace

void add_options(CLI::App& app, Measuring& options) {
  app.add_option("--json", options.json, "Write the results to this file too");
  app.add_flag("--list", options.list, "Print all rows and their goals, and measure nothing");
  app.add_option("--seconds", options.plan.seconds_max, "Most time for one row of the table")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  app.add_option("--pairs", options.plan.pairs_wanted, "Undisturbed pairs wanted for one row")
      ->check(CLI::Range(1, 100'000))
      ->capture_default_str();
}

std::vector<Result> heads_of(const std::vector<Row>& rows) {
  std::vector<Result> heads;
  for (const Row& row : rows)
    heads.push_back(std::visit([](const auto& which) { return head_of(which); }, row));
  return heads;
}

void measure_rows(std::vector<Row> rows, const Measuring& options,
                  const std::function<void(Machine&)>& complete) {
  std::ofstream json;
  if (!options.json.empty()) {
    json.open(options.json, std::ios::trunc);
    if (!json) throw Error(ErrorCode::not_found, fmt::format("cannot write '{}'", options.json));
  }
  pin_this_thread(host_processor);
  Machine machine{processors().size(), load_before(), gauge_ping_pong(), gauge_scaling()};
  std::vector<Result> results;
  for (Row& waiting : rows) {
    // the row's resources are freed when the row is done
    const Row now = std::exchange(waiting, {});
    std::visit([&](const auto& which) { measure_or_leave_out(which, options.plan, results); }, now);
  }
  complete(machine);
  fmt::print("{}{}", results_table(results, machine), summary_table(results));
  if (!options.json.empty()) json << results_json(results, machine);
}

}  // namespace heddle::bench
