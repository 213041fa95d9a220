// Candidates: the choices of a schedule that are worth measuring beside the cost model's own, for
// one program on one processor. Pure; any thread.
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
  /// Those whose estimate is at most so many times that of the model's choice.
  double near = 1.5;
  std::size_t most = 48;  ///< of those, the ones with the least estimates
  /// Constants are tried at these multiples, and parts, of what they are.
  std::vector<std::int64_t> factors{4};
  /// Also those that take float sums in another order.
  bool reassociate = false;
  /// Whether listing is to end with what there is: it schedules the program again and again.
  std::function<bool()> enough{};
};

/// Of an optimised program: the model's choice first, the others by their estimates. No two have
/// the same loops. `asked` is what the program asks of its schedule itself (schedule_without,
/// contraction_tile, fast_math); no candidate goes against it.
[[nodiscard]] std::vector<TunedCandidate> list_candidates(const Lowered& optimized,
                                                          const Target& target,
                                                          const CompileOptions& asked,
                                                          const CandidateOptions& options);

}  // namespace heddle::jit
