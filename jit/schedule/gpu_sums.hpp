// Reductions on a GPU: their terms, and the cutting of long reductions. Pure; any thread.
#pragma once

#include <vector>

#include "jit/schedule/lanes.hpp"
#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Approximate number of groups that a GPU runs at once.
inline constexpr std::int64_t gpu_groups_wanted = 128;
/// Terms of a reduction that are enough work for a separate group.
inline constexpr std::int64_t gpu_part_terms = 4096;

[[nodiscard]] std::int64_t iterations_of(const Stmt& loop);
/// The index of the longest loop; of equally long loops, the innermost. Its iterations are shared
/// out.
[[nodiscard]] std::size_t longest_loop(const std::vector<StmtPtr>& loops);

/// `sum` and `term` joined by the reduction's operation.
[[nodiscard]] ValuePtr joined(const Reduction& r, const ValuePtr& sum, const ValuePtr& term);
/// The statements by which an iteration of the reduction's loop number `at` adds to `sum`: the
/// other loops around the step.
[[nodiscard]] Block terms_of(const Reduction& r, std::size_t at, LocalId sum);

/// Perfectly nested loops, around a body.
struct GpuNest {
  std::vector<StmtPtr> loops;
  Block body;
};
/// The reduction `r` of each of the `rows`, and `rest` after it, as reductions of `parts` parts of
/// a row to scratch, whose last loop is that over parts, and, in the last nest, a reduction of the
/// partial results.
[[nodiscard]] std::vector<GpuNest> cut_sum(Scheduling& in, const std::vector<StmtPtr>& rows,
                                           const Reduction& r, const Block& rest,
                                           std::int64_t parts);

}  // namespace heddle::jit
