// A round of stress: some devices, some hosts that submit, wait, cancel, recover, shut down and
// reopen, a foreign signaller, all drawn from one seed; then what must hold is checked. One thread
// calls; the round has threads of its own.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heddle/observe.hpp"
#include "tools/stress/tally.hpp"

namespace heddle::stress {

struct RoundOptions {
  std::uint64_t seed = 1;
  int actions = 250;  ///< that each host does
  /// Nothing takes this long unless it is stuck.
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
  /// Records a trace of the round. Without, some rounds do for themselves.
  bool trace = false;
};

struct RoundResult {
  Tally tally;
  std::vector<std::string> broken;  ///< invariants; empty: all is well
  /// Something did not end: `broken` says what. Threads of the round are still there, and its
  /// memory with them: the process had better end.
  bool stuck = false;
  std::optional<Trace> trace;
};

[[nodiscard]] RoundResult run_round(const RoundOptions& options);

}  // namespace heddle::stress
