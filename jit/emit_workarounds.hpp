// Where GCC 12 would make wrong code of what emitters write. Pure; any thread.
#pragma once

#include <set>

#include "jit/loop.hpp"

namespace heddle::jit {

/// Floating x - y where y is a converted integer, or |y|, in the same expression: should GCC 12
/// find x to be 0 it makes -y of it, so -0 of 0 - 0, as fold_real_zero_addition_p
/// (gcc/fold-const.cc) asks whether y + 0 is y. Emitters put such a y into a variable.
[[nodiscard]] bool subtracts_unsigned_zero(const Value& value) noexcept;

/// Floating sums that GCC 12.2 makes wrong vectors of. Emitters put an empty asm statement behind
/// each assignment or store, which keeps the loop from becoming vectors: terms in order wait for
/// one another anyway.
struct ScalarSums {
  /// - Sums, products and the like over two loops or more: where GCC unrolls the inner one and runs
  ///   the outer as vectors, it counts some terms twice and leaves out others, should those be read
  ///   in another order than they lie in (gcc.gnu.org/PR110381, in 12.4 no more).
  /// - Sums with a term that is a constant under some condition: x - (c ? -1 : 0) becomes
  ///   c ? x + 1 : x, which is right, and that x + (c ? 1 : 0), which is 0 for -0
  ///   (convert_scalar_cond_reduction in gcc/tree-if-conv.cc).
  std::set<LocalId> locals;
  std::set<BufferId> buffers;  ///< of the second kind, where an element is what is summed into

  [[nodiscard]] bool contains(const Stmt& stmt) const {
    return stmt.kind == StmtKind::store ? buffers.contains(stmt.buffer)
                                        : locals.contains(stmt.local);
  }
};

[[nodiscard]] ScalarSums scalar_sums(const Block& body);

}  // namespace heddle::jit
