// heddle-bench: measures the scheduler and generated code against limits and rivals. See
// harness.hpp for the method. Exit codes: 0 done, 1 failed, 2 misuse.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/processors.hpp"
#include "tools/bench/report.hpp"

namespace heddle::bench {
namespace {

struct Options {
  std::string group = "all";
  std::string json;
  std::string filter;
  Plan plan;
};

std::vector<Case> chosen_cases(const Options& options) {
  std::vector<Case> cases;
  if (options.group != "kernels") {
    if (processors().size() < 2) {
      fmt::print(stderr,
                 "heddle-bench: one processor only: threads take turns, the scheduler's figures "
                 "mean little\n");
    }
    add_submit_cases(cases);
    add_round_trip_cases(cases);
    add_parked_cases(cases);
    add_hop_cases(cases);
  }
  if (options.group != "scheduler") {
    add_elementwise_cases(cases);
    add_matmul_cases(cases);
  }
  std::erase_if(cases, [&options](const Case& c) {
    return c.workload.find(options.filter) == std::string::npos;
  });
  return cases;
}

int run(const Options& options) {
  std::ofstream json;
  if (!options.json.empty()) {
    json.open(options.json, std::ios::trunc);
    if (!json) throw Error(ErrorCode::not_found, fmt::format("cannot write '{}'", options.json));
  }
  std::vector<Case> cases = chosen_cases(options);
  pin_this_thread(host_processor);
  const Machine machine{processors().size(), gauge_ping_pong(), gauge_scaling()};
  std::vector<Result> results;
  for (Case& waiting : cases) {
    const Case now = std::exchange(waiting, {});  // its memory goes when it is done
    fmt::print(stderr, "{}: {} against {} ...\n", now.workload, now.subject.name, now.anchor.name);
    results.push_back(measure(now, options.plan));
  }
  fmt::print("{}", results_table(results, machine));
  if (!options.json.empty()) json << results_json(results, machine);
  return 0;
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  heddle::bench::Options options;
  CLI::App app{"Measures heddle against limits and rivals of the same run."};
  app.name("heddle-bench");
  app.add_option("group", options.group, "scheduler, kernels or all")
      ->check(CLI::IsMember({"scheduler", "kernels", "all"}))
      ->capture_default_str();
  app.add_option("--json", options.json, "Write the results to this file too");
  app.add_option("--filter", options.filter, "Only workloads whose name contains this");
  app.add_option("--seconds", options.plan.seconds_max, "Most time for one row of the table")
      ->check(CLI::Range(0.1, 3600.0))
      ->capture_default_str();
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    return heddle::bench::run(options);
  } catch (const std::exception& error) {
    fmt::print(stderr, "heddle-bench: {}\n", error.what());
    return 1;
  }
}
