// `heddle tune FILE`: measures candidates of a program's schedule, and tells what was found, to
// `heddle explain` too. One thread.
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

/// Measures `program`, and keeps the best of its candidates. Not ok where the budget was too small
/// for any, or the best could not be kept. Throws what Backend::tune() throws.
[[nodiscard]] TuneReport tune_program(const Backend& backend, const Program& program,
                                      const TuneProgramOptions& options, bool colour);
/// The candidates, a line each, the best one marked.
[[nodiscard]] std::string tuned_table(const TunedSchedule& tuned, bool colour);

}  // namespace heddle::tools
