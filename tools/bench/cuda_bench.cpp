// heddle-bench-cuda: the rows of `heddle-bench cuda` alone, for machines that lack what other rows
// need. Exit codes: 0 done, 1 failed, 2 misuse.
#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <utility>
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/gpu_rows.hpp"
#include "tools/bench/measuring.hpp"

int main(int argc, char** argv) {
  using namespace heddle::bench;
  Measuring options;
  CLI::App app{"Measures heddle on a GPU against limits and rivals of the same run."};
  app.name("heddle-bench-cuda");
  add_options(app, options);
  app.add_flag("--small", gpu_sizes().small, "Small arrays: to try the rows without measuring");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    std::vector<Row> rows;
    add_gpu_array_rows(rows);
    add_gpu_launch_rows(rows);
    if (options.list) {
      fmt::print("{}", rows_list(heads_of(rows)));
    } else {
      static_cast<void>(open_cuda());  // without a GPU there is nothing to measure
      measure_rows(std::move(rows), options, [](Machine&) {});
    }
    return 0;
  } catch (const std::exception& error) {
    fmt::print(stderr, "heddle-bench-cuda: {}\n", error.what());
    return 1;
  }
}
