// `heddle tune FILE`: measures candidates of a program's schedule, and reports the results, also
// for `heddle explain`. One thread.
#pragma once

#include <string>

#include "heddle/backend.hpp"
#include "heddle/program.hpp"
#include "heddle/tune.hpp"
#include "tools/tune.hpp"

namespace heddle::tools {

struct TuneProgramOptions {
  TuneOptions tune{};
  bool fast_math = false;
  bool json = false;
};

/// Measures `program`, and stores the best candidate. Not ok where the budget was too small for any
/// candidate, or the best one could not be stored. Throws the errors of Backend::tune().
[[nodiscard]] TuneReport tune_program(const Backend& backend, const Program& program,
                                      const TuneProgramOptions& options, bool colour);
/// The candidates, a line each, with the best candidate marked.
[[nodiscard]] std::string tuned_table(const TunedSchedule& tuned, bool colour);

}  // namespace heddle::tools
