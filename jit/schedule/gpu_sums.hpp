// Reductions on a GPU: their terms, and how long ones are cut. Pure; any thread.
#pragma once

#include <vector>

#include "jit/schedule/lanes.hpp"
#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Groups that a GPU has room for at once, or so.
inline constexpr std::int64_t gpu_groups_wanted = 128;
/// Terms of a reduction that are worth groups of their own.
inline constexpr std::int64_t gpu_part_terms = 4096;

[[nodiscard]] std::int64_t iterations_of(const Stmt& loop);
/// Which of the loops is the longest; of equal ones, the innermost. Its iterations are shared out.
[[nodiscard]] std::size_t longest_loop(const std::vector<StmtPtr>& loops);

/// `sum` and `term` joined as the reduction does it.
[[nodiscard]] ValuePtr joined(const Reduction& r, const ValuePtr& sum, const ValuePtr& term);
/// What one iteration of its loop number `at` adds to `sum`: the other loops around that.
[[nodiscard]] Block terms_of(const Reduction& r, std::size_t at, LocalId sum);

/// Loops alone in each other, around a body.
struct GpuNest {
  std::vector<StmtPtr> loops;
  Block body;
};
/// The reduction `r` of each of the `rows`, and `rest` after it, as reductions of parts of a row to
/// scratch and, in the last nest, of what those gave.
[[nodiscard]] std::vector<GpuNest> cut_sum(Scheduling& in, const std::vector<StmtPtr>& rows,
                                           const Reduction& r, const Block& rest);

}  // namespace heddle::jit
