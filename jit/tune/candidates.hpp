// Candidates: the schedule choices worth measuring beside the cost model's choice, for one program
// on one processor. Pure; any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "heddle/code.hpp"
#include "heddle/tune.hpp"
#include "jit/lower/lower.hpp"
#include "jit/vector/target.hpp"

namespace heddle::jit {

struct CandidateOptions {
  /// Keeps candidates whose estimate is at most this multiple of the estimate of the model's
  /// choice.
  double near = 1.5;
  std::size_t most = 48;  ///< the largest number of candidates; the lowest estimates win
  /// Constants are tried at these multiples and fractions of their values.
  std::vector<std::int64_t> factors{4};
  /// Includes candidates that sum floats in another order.
  bool reassociate = false;
  /// Returns true to end the listing early: listing schedules the program repeatedly.
  std::function<bool()> enough{};
};

/// The candidates of an optimised program: the model's choice first, the others by estimate. No two
/// candidates have equal loops. `asked`: the program's own settings of its schedule
/// (schedule_without, contraction_tile, fast_math, unordered_scatters), which every candidate
/// respects.
[[nodiscard]] std::vector<TunedCandidate> list_candidates(const Lowered& optimized,
                                                          const Target& target,
                                                          const CompileOptions& asked,
                                                          const CandidateOptions& options);

}  // namespace heddle::jit
