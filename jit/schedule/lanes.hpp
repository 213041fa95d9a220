// Helpers shared by vector schedules: elementwise code, and reductions along rows and columns.
// Pure; any thread.
#pragma once

#include <optional>
#include <vector>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Vectors per iteration of an elementwise loop: enough to keep the loads going.
inline constexpr std::int64_t unrolled_vectors = 4;
/// Sums side by side: an addition takes four cycles, and two begin in each cycle.
inline constexpr std::int64_t sums_max = 8;

/// True if the loop may run as lanes, and would be vector code as a whole.
[[nodiscard]] bool runs_as_vectors(const Scheduling& in, const StmtPtr& lanes);

/// The statements, where vectors subtract y in place of adding -y, which takes an operation more.
[[nodiscard]] Block with_subtractions(const Block& body);

/// The body with `var` replaced by `at`, and its own locals renamed.
[[nodiscard]] Block copy_at(Scheduling& in, const Block& body, VarId var, const Affine& at);

/// [declare x = start, reduced loops around x = op(x, term)] at the head of a block.
struct Reduction {
  StmtPtr declare;
  std::vector<StmtPtr> loops;  ///< and positions, if asked for
  bool has_positions = false;
  Op op = Op::add;
  ValuePtr term;
  bool term_first = false;
};
/// `positions`: computed positions may lie between the loops, as of sum(take(table, rows)).
[[nodiscard]] std::optional<Reduction> match_reduction(const StmtPtr& declare, const StmtPtr& nest,
                                                       bool positions = false);

}  // namespace heddle::jit
