// `heddle demo digits`: trains, shows progress, reports, draws the curve. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heddle/backend.hpp"

namespace heddle::demo {

struct DigitsDemoOptions {
  std::optional<int> devices;  ///< default: one per core
  int batch = 16;
  int epochs = 60;
  std::uint64_t seed = 1;
  std::string out;     ///< file for the curve; empty: none
  bool quiet = false;  ///< no progress
};

/// Progress goes to stderr, the result to stdout. Throws Error: not_found when `out` cannot be
/// written, or the errors of the training.
void run_digits_demo(const Backend& backend, const DigitsDemoOptions& options);

}  // namespace heddle::demo
