// `heddle explain`: what becomes of a program on its way to the processor, and how far from the
// machine's limits it runs. One thread.
#pragma once

#include <string>

#include "heddle/backend.hpp"
#include "heddle/program.hpp"

namespace heddle::tools {

struct ExplainOptions {
  bool source = false;  ///< also what goes to the compiler
  bool fast_math = false;
};

/// The program after each stage, what it costs, what bounds it, and the time that it took.
/// Static indices are 0. Throws what compiling and running throw.
[[nodiscard]] std::string explain(const Backend& backend, const Program& program,
                                  const ExplainOptions& options);

}  // namespace heddle::tools
