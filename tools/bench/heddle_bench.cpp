// heddle-bench: measures the scheduler and generated code against limits and rivals. See
// harness.hpp for the method. Exit codes: 0 done, 1 failed, 2 misuse.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/processors.hpp"
#include "tools/bench/report.hpp"

namespace heddle::bench {
namespace {

struct Options {
  std::vector<std::string> names{"all"};
  std::string json;
  Plan plan;
};

struct Workload {
  const char* name;
  const char* group;
  void (*add_cases)(std::vector<Case>& cases);
};
constexpr Workload workloads[] = {
    {"submit", "scheduler", add_submit_cases},
    {"round-trip", "scheduler", add_round_trip_cases},
    {"parked", "scheduler", add_parked_cases},
    {"hop", "scheduler", add_hop_cases},
    {"spin", "tuning", add_spin_cases},
    {"memory", "tuning", add_memory_cases},
    {"elementwise", "kernels", add_elementwise_cases},
    {"matmul", "kernels", add_matmul_cases},
};

bool chosen(const Workload& workload, const std::string& name) {
  return name == "all" || name == workload.group || name == workload.name;
}

/// For CLI11: empty, or what is wrong with the name.
std::string check_name(const std::string& name) {
  const auto matches = [&name](const Workload& w) { return chosen(w, name); };
  if (std::ranges::any_of(workloads, matches)) return {};
  std::string known = "all, scheduler, tuning, kernels";
  for (const Workload& w : workloads) known += fmt::format(", {}", w.name);
  return fmt::format("no workload '{}'; there are: {}", name, known);
}

std::vector<Case> chosen_cases(const Options& options) {
  std::vector<Case> cases;
  bool threads = false, kernels = false;
  for (const Workload& workload : workloads) {
    const auto names_it = [&workload](const std::string& name) { return chosen(workload, name); };
    if (std::ranges::none_of(options.names, names_it)) continue;
    (std::string_view(workload.group) == "kernels" ? kernels : threads) = true;
    workload.add_cases(cases);
  }
  if (threads && processors().size() < 2) {
    fmt::print(stderr,
               "heddle-bench: one processor only: threads take turns, the scheduler's figures "
               "mean little\n");
  }
#ifndef HEDDLE_BENCH_TBB
  if (threads) {
    fmt::print(stderr,
               "heddle-bench: built without oneTBB, so that rival is left out: install libtbb-dev, "
               "then configure again\n");
  }
#endif
  if (kernels && compiling_backends().empty()) {
    fmt::print(stderr,
               "heddle-bench: no compiler can be used here, kernels are left out: see heddle "
               "info\n");
  }
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
  app.add_option("workloads", options.names,
                 "all, scheduler (submit, round-trip, parked, hop), tuning (spin, memory), "
                 "kernels (elementwise, matmul), or single ones")
      ->check(CLI::Validator(heddle::bench::check_name, ""))
      ->capture_default_str();
  app.add_option("--json", options.json, "Write the results to this file too");
  app.add_option("--seconds", options.plan.seconds_max, "Most time for one row of the table")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  app.add_option("--pairs", options.plan.pairs_wanted, "Undisturbed pairs wanted for one row")
      ->check(CLI::Range(1, 100'000))
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
