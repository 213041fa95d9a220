// Where a kernel that runs for long looks whether it is to stop (heddle_kernel_args::stop). Pure;
// any thread.
#pragma once

#include <cstdint>
#include <map>

#include "jit/loop/loop.hpp"

namespace heddle::jit {

struct StopChecks {
  /// It looks at the beginning of these loops, and again after so many iterations, in which they
  /// do enough for a look to cost nothing; and before each other loop or position at its top
  /// level. Loops that look now and then have one around them that looks, and stay as compilers
  /// make vectors of them.
  std::map<VarId, std::int64_t> every;
  /// After how many iterations `loop` looks: 0 where it does not, 1 where each iteration does.
  [[nodiscard]] std::int64_t period(const Stmt& loop) const {
    const auto at = every.find(loop.var);
    return at == every.end() ? 0 : at->second;
  }
  /// Kernels that end soon have none.
  bool any = false;
  /// Whether it looks before this statement of its top level.
  [[nodiscard]] bool before(const Stmt& stmt) const {
    return any && binds_variable(stmt) && !every.contains(stmt.var);
  }
};
[[nodiscard]] StopChecks stop_checks(const Loop& loop);

}  // namespace heddle::jit
