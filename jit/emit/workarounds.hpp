// Finds code that GCC 12 would compile wrongly. Pure; any thread.
#pragma once

#include <cstddef>
#include <map>
#include <set>
#include <span>
#include <string_view>

#include "jit/loop/loop.hpp"
#include "jit/value/primitives.hpp"
#include "jit/vector/dependence.hpp"

namespace heddle::jit {

/// True for a floating difference x - y if GCC sees that y is never -0: y is a converted integer,
/// an absolute value, a constant, or a choice among these. If GCC 12 finds that x is 0, it replaces
/// x - y by -y, and 0 - 0 becomes -0, because fold_real_zero_addition_p (gcc/fold-const.cc) only
/// checks that y + 0 equals y. Emitters put such a y into a variable, outside the expression of the
/// difference.
[[nodiscard]] bool subtracts_unsigned_zero(const Value& value) noexcept;

/// The locals of floating sums, products and the like over two loops or more. Where GCC 12.2
/// unrolls the inner loop and vectorises the outer, it counts some terms twice and omits others, if
/// the terms are read in another order than that in memory (gcc.gnu.org/PR110381, fixed in 12.4).
/// Emitters put an empty asm statement behind each assignment, which keeps GCC from vectorising the
/// loop. The loss is small: each step waits for the previous step anyway. Loops that sum to an
/// element of a block in each iteration, side by side, are vectorised by themselves.
[[nodiscard]] std::set<LocalId> nested_sums(const Block& body);

/// The facts about a value that HiddenTerms uses: a set of bits.
using TermFacts = unsigned;

/// Floating sums that stay unchanged under some condition. For vectors, GCC 12.2 turns c ? x + t :
/// x into x + (c ? t : 0), and so -0 into 0 (convert_scalar_cond_reduction in gcc/tree-if-conv.cc);
/// GCC first transforms x - (c ? -1 : 0), and sums with other terms that are constant under a
/// condition, into the form c ? x + t : x. Emitters pass such terms through hide_function().
class HiddenTerms {
 public:
  explicit HiddenTerms(const Block& body);
  /// True if `body` has such a term.
  [[nodiscard]] bool any() const noexcept { return any_; }
  /// The facts about a value of `body`, or of copies of its statements, given the facts about its
  /// operands.
  [[nodiscard]] TermFacts facts(const Value& value, std::span<const TermFacts> of_operands) const;
  /// True if operand `k` of the value is such a term.
  [[nodiscard]] static bool hides(const Value& value, std::size_t k,
                                  std::span<const TermFacts> of_operands);

 private:
  static TermFacts constants_of_cast(const Value& cast, TermFacts of_operand);
  static TermFacts constants_of_op(const Value& op, std::span<const TermFacts> of_operands);

  std::map<BufferId, TermFacts> buffers_;  // facts about their elements
  std::map<LocalId, TermFacts> locals_;
  bool any_ = false;
};

/// Loops whose iterations depend on each other through memory, which GCC 12.2 must not vectorise.
/// After unrolling the loops inside such a loop, GCC groups neighbouring loads and stores
/// (tree-vect-data-refs.cc), and so moves a load ahead of the store of an earlier iteration that
/// may write the loaded element ("dependence distance negative"). Also found in 11.3; schedules
/// make vectors of loops whose iterations are known to be independent.
///
/// Nor does GCC make vectors of loops around a loop of at most 16 iterations with conditions: once
/// GCC 12.2 has unrolled the inner loop, some masks of its vectors are wrong with AVX-512.
class ScalarLoops {
 public:
  ScalarLoops(const Loop& loop, const LanePlan& plan);
  /// True if emitters put an empty asm statement at the end of the loop's body. Loops inside still
  /// become vectors.
  [[nodiscard]] bool ends_with_asm(const Stmt& loop) const;
  /// Buffers for which the values stored by the loop's own statements pass through an empty asm
  /// statement. Used in innermost loops, where GCC then still keeps values of the previous
  /// iteration in registers.
  [[nodiscard]] std::set<BufferId> hidden_stores(const Stmt& loop) const;

 private:
  struct Guard {
    bool ends_with_asm = false;
    std::set<BufferId> hidden_stores;
  };
  std::map<VarId, Guard> guards_;
};

/// The register class of a type's values, as asm operands name it.
[[nodiscard]] std::string_view asm_register(DType type) noexcept;

/// (T value, u64 zero) -> T: returns `value`. A compiler that does not know that `zero` is 0 cannot
/// know the result.
[[nodiscard]] PrimFunction hide_function(DType type);

}  // namespace heddle::jit
