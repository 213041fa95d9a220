// Runs the heddle program and keeps what it says. One thread.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace heddle::tools::testing {

struct Outcome {
  int exit_code = -1;  ///< 128 + signal when a signal ended it
  std::string out, err;
};

using Environment = std::vector<std::pair<std::string, std::string>>;

/// `environment` is added to this process's own, without its HEDDLE_ variables.
[[nodiscard]] Outcome run_heddle(const std::vector<std::string>& arguments,
                                 const Environment& environment = {});

/// The same with a terminal as stdout and stderr; all output is in `out`.
[[nodiscard]] Outcome run_heddle_in_terminal(const std::vector<std::string>& arguments,
                                             const Environment& environment = {});

}  // namespace heddle::tools::testing
