// The places where a long kernel checks its stop word (heddle_kernel_args::stop). Pure; any thread.
#pragma once

#include <cstdint>
#include <map>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

struct StopChecks {
  /// The kernel checks at the beginning of these loops, and again after so many iterations, which
  /// do enough work to make the check's cost negligible; and before the other loops and positions
  /// at the top level. A loop with a period greater than 1 is emitted as two nested loops, of which
  /// only the outer checks, so compilers still make vectors of the inner.
  std::map<VarId, std::int64_t> every;
  /// The number of iterations of `loop` between checks: 0: no checks; 1: a check in every
  /// iteration.
  [[nodiscard]] std::int64_t period(const Stmt& loop) const {
    const auto at = every.find(loop.var);
    return at == every.end() ? 0 : at->second;
  }
  /// False for short kernels, which have no checks.
  bool any = false;
  /// True if the kernel checks before this statement of its top level.
  [[nodiscard]] bool before(const Stmt& stmt) const {
    return any && binds_variable(stmt) && !every.contains(stmt.var);
  }
};
[[nodiscard]] StopChecks stop_checks(const Loop& loop);

}  // namespace heddle::jit
