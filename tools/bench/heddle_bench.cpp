// heddle-bench: measures the scheduler and generated code against limits and rivals. See
// harness.hpp for the method. Exit codes: 0 done, 1 failed, 2 misuse.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "heddle/status.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/goals.hpp"
#include "tools/bench/gpu_rows.hpp"
#include "tools/bench/limit_kernels.hpp"
#include "tools/bench/measuring.hpp"
#include "tools/bench/processors.hpp"
#include "tools/bench/rival_python.hpp"
#include "tools/bench/rivals.hpp"

namespace heddle::bench {
namespace {

struct Options {
  Measuring measuring;
  std::vector<std::string> names{"all"};
};

struct Workload {
  const char* name;
  const char* group;
  void (*add_rows)(std::vector<Row>& rows);
  const char* also = "";  ///< a second group of the row
};
constexpr Workload workloads[] = {
    {"idle", "scheduler", add_idle_rows},
    {"footprint", "scheduler", add_footprint_rows},
    {"submit", "scheduler", add_submit_rows},
    {"round-trip", "scheduler", add_round_trip_rows},
    {"parked", "scheduler", add_parked_rows},
    {"hop", "scheduler", add_hop_rows},
    {"fan", "scheduler", add_fan_rows},
    {"parallel", "scheduler", add_parallel_rows, "kernels"},
    {"pooled", "scheduler", add_pooled_rows},
    {"fiber", "scheduler", add_fiber_rows},
    {"trace", "scheduler", add_trace_rows},
    {"open", "scheduler", add_open_rows},
    {"schedule", "runtime", add_schedule_rows},
    {"replay", "runtime", add_replay_rows},
    {"pool", "runtime", add_pool_rows},
    {"move", "runtime", add_move_rows},
    {"all-reduce", "runtime", add_all_reduce_rows},
    {"training", "runtime", add_training_rows},
    {"calls", "executor", add_call_rows},
    {"donation", "executor", add_donation_rows},
    {"spin", "tuning", add_spin_rows},
    {"touch", "tuning", add_touch_rows},
    {"whole", "kernels", add_whole_rows},
    {"elementwise", "functions", add_elementwise_rows},
    {"math", "functions", add_math_rows},
    {"sums", "functions", add_sum_rows},
    {"softmax", "functions", add_softmax_rows},
    {"layernorm", "functions", add_layernorm_rows},
    {"transpose", "functions", add_transpose_rows},
    {"matmul", "functions", add_matmul_rows},
    {"products", "functions", add_product_rows},
    {"graph", "graphs", add_graph_rows},
    {"tracing", "graphs", add_tracing_rows},
    {"layers", "graphs", add_layers_rows},
    {"written-products", "written", add_written_products},
    {"written-networks", "written", add_written_networks},
    {"written-physics", "written", add_written_physics},
    {"written-statistics", "written", add_written_statistics},
    {"written-tables", "written", add_written_tables},
    {"written-images", "written", add_written_images},
    {"gpu-arrays", "cuda", add_gpu_array_rows},
    {"gpu-launches", "cuda", add_gpu_launch_rows},
    {"cold", "compile", add_cold_rows},
    {"warm", "compile", add_warm_rows},
    {"known", "compile", add_known_rows},
};

/// "scheduler (idle, ...), ..."
std::string groups_text() {
  std::string text;
  const char* group = "";
  for (const Workload& workload : workloads) {
    const bool same = std::string_view(group) == workload.group;
    if (!same) text += fmt::format("{}{} (", text.empty() ? "" : "), ", workload.group);
    text += fmt::format("{}{}", same ? ", " : "", workload.name);
    group = workload.group;
  }
  return text + ")";
}

bool chosen(const Workload& workload, const std::string& name) {
  return name == "all" || name == workload.group || name == workload.also || name == workload.name;
}

/// For CLI11: empty, or the error of the name.
std::string check_name(const std::string& name) {
  const auto matches = [&name](const Workload& w) { return chosen(w, name); };
  if (std::ranges::any_of(workloads, matches)) return {};
  std::string known =
      "all, scheduler, runtime, executor, tuning, kernels, functions, graphs, written, cuda, "
      "compile";
  for (const Workload& w : workloads) known += fmt::format(", {}", w.name);
  return fmt::format("no workload '{}'; there are: {}", name, known);
}

std::vector<Workload> chosen_workloads(const Options& options) {
  std::vector<Workload> result;
  for (const Workload& workload : workloads) {
    const auto names_it = [&workload](const std::string& name) { return chosen(workload, name); };
    if (std::ranges::any_of(options.names, names_it)) result.push_back(workload);
  }
  return result;
}

std::vector<Row> chosen_rows(const Options& options) {
  std::vector<Row> rows;
  for (const Workload& workload : chosen_workloads(options)) workload.add_rows(rows);
  return rows;
}

/// On stderr: limitations of the figures that follow.
void warn(const Options& options) {
  bool threads = false, kernels = false;
  for (const Workload& workload : chosen_workloads(options)) {
    const std::string_view group = workload.group;
    const bool alone = group == "functions" || group == "compile" || group == "written";
    if (group != "cuda") (alone ? kernels : threads) = true;
    if (group == "executor" || group == "kernels") kernels = true;
  }
  if (threads && processors().size() < 2) {
    fmt::print(stderr,
               "heddle-bench: one processor only: threads take turns, the scheduler's figures "
               "mean little\n");
  }
  if (const auto left_out = rivals_left_out(); threads && !left_out.empty()) {
    fmt::print(stderr,
               "heddle-bench: built without {}: install tools/bench/rivals.txt, then configure "
               "again\n",
               fmt::join(left_out, ", "));
  }
  if (kernels && compiling_backends().empty()) {
    fmt::print(stderr,
               "heddle-bench: no compiler can be used here, kernels are left out: see heddle "
               "info\n");
  }
}

/// Rows against frameworks exist only for frameworks with a named Python.
bool is_of_absent_framework(const Goal& goal) {
  return std::ranges::any_of(frameworks(), [&goal](const Framework& each) {
    return each.python.empty() && goal.anchor.starts_with(each.name);
  });
}

/// Throws internal when a goal matches no possible row.
void check_goals(std::span<const Result> rows) {
  for (const Goal& goal : goals()) {
    if (goal.workload == every_row) continue;
    if (is_of_absent_framework(goal)) continue;
    if (goal.anchor == multiply_add_peak && !limits_are_written()) continue;
    const auto is_its = [&goal](const Result& row) { return goal_for(row) == &goal; };
    if (std::ranges::none_of(rows, is_its))
      throw Error(ErrorCode::internal, fmt::format("the goal for '{}' against '{}' has no row",
                                                   goal.workload, goal.anchor));
  }
}

void list() {
  const Options all;
  const std::vector<Result> rows = heads_of(chosen_rows(all));
  check_goals(rows);
  fmt::print("{}", rows_list(rows));
}

void run(const Options& options) {
  warn(options);
  measure_rows(chosen_rows(options), options.measuring, [](Machine& machine) {
    machine.rivals_left_out = rivals_left_out();
    for (const Framework& each : frameworks()) {
      if (!each.version.empty()) machine.frameworks.push_back(each.version);
    }
  });
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  heddle::bench::Options options;
  CLI::App app{"Measures heddle against limits and rivals of the same run."};
  app.name("heddle-bench");
  app.add_option("workloads", options.names,
                 fmt::format("all, {}, or single ones", heddle::bench::groups_text()))
      ->check(CLI::Validator(heddle::bench::check_name, ""))
      ->capture_default_str();
  heddle::bench::add_options(app, options.measuring);
  for (heddle::bench::Framework& each : heddle::bench::frameworks()) {
    app.add_option(fmt::format("--{}", each.module), each.python,
                   fmt::format("Compare kernels with the {} of this Python", each.name))
        ->check(CLI::ExistingFile);
  }
  app.add_flag("--small", heddle::bench::gpu_sizes().small,
               "Small arrays on GPUs: to try the rows without measuring");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  // A framework's process that has died is an error of its row, where its answer is missing.
  std::signal(SIGPIPE, SIG_IGN);
  try {
    options.measuring.list ? heddle::bench::list() : heddle::bench::run(options);
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "heddle-bench: {}\n", error.what());
    return 1;
  }
}
