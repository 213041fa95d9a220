// Where a kernel that runs for long looks whether it is to stop (heddle_kernel_args::stop). Pure;
// any thread.
#pragma once

#include <set>

#include "jit/loop.hpp"

namespace heddle::jit {

struct StopChecks {
  /// It looks at the beginning of each iteration of these loops, whose bodies are long enough for
  /// it to cost less than a hundredth of the instructions, and before each other loop at its top
  /// level.
  std::set<VarId> loops;
  /// Kernels that end soon have none.
  bool any = false;
  /// Whether it looks before this statement of its top level.
  [[nodiscard]] bool before(const Stmt& stmt) const {
    return any && stmt.kind == StmtKind::loop && !loops.contains(stmt.var);
  }
};
[[nodiscard]] StopChecks stop_checks(const Loop& loop);

}  // namespace heddle::jit
