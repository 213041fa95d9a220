// What schedules of vectors share: elementwise code, and reductions along rows and columns. Pure;
// any thread.
#pragma once

#include <optional>
#include <vector>

#include "jit/schedule/scheduling.hpp"

namespace heddle::jit {

/// Vectors of an elementwise loop in one iteration: enough to keep the loads going.
inline constexpr std::int64_t unrolled_vectors = 4;
/// Sums side by side: an addition takes four cycles, two begin in each.
inline constexpr std::int64_t sums_max = 8;

/// The loop may run as lanes, and all of it would be vector code.
[[nodiscard]] bool runs_as_vectors(const Scheduling& in, const StmtPtr& lanes);

/// body at `at`, its own locals renamed.
[[nodiscard]] Block copy_at(Scheduling& in, const Block& body, VarId var, const Affine& at);

/// [declare x = start, reduced loops around x = op(x, term)] at the head of a block.
struct Reduction {
  StmtPtr declare;
  std::vector<StmtPtr> loops;
  Op op = Op::add;
  ValuePtr term;
  bool term_first = false;
};
[[nodiscard]] std::optional<Reduction> match_reduction(const StmtPtr& declare, const StmtPtr& nest);

}  // namespace heddle::jit
