// A round of stress: devices, hosts that submit, wait, cancel, recover, shut down and reopen, and a
// foreign signaller, all drawn from one seed; then the invariants are checked. One thread calls;
// the round has its own threads.
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
  int actions = 250;  ///< of each host
  /// A step that takes this long is stuck.
  std::chrono::nanoseconds patience = std::chrono::seconds(30);
  /// Records a trace of the round. Without this flag, some rounds record a trace anyway.
  bool trace = false;
};

struct RoundResult {
  Tally tally;
  std::vector<std::string> broken;  ///< broken invariants; empty: none
  /// A task or thread did not end: `broken` names it. The round's threads still run and its memory
  /// is kept: the process should exit.
  bool stuck = false;
  std::optional<Trace> trace;
};

[[nodiscard]] RoundResult run_round(const RoundOptions& options);

}  // namespace heddle::stress
