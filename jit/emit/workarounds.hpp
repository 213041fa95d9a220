// Where GCC 12 would make wrong code of what emitters write. Pure; any thread.
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

/// Floating x - y where y is a converted integer, or |y|, in the same expression: should GCC 12
/// find x to be 0 it makes -y of it, so -0 of 0 - 0, as fold_real_zero_addition_p
/// (gcc/fold-const.cc) asks whether y + 0 is y. Emitters put such a y into a variable.
[[nodiscard]] bool subtracts_unsigned_zero(const Value& value) noexcept;

/// The locals of floating sums, products and the like over two loops or more. Where GCC 12.2
/// unrolls the inner one and runs the outer as vectors, it counts some terms twice and leaves out
/// others, should those be read in another order than they lie in (gcc.gnu.org/PR110381, in 12.4 no
/// more). Emitters put an empty asm statement behind each assignment, which keeps the loop from
/// becoming vectors: terms in order wait for one another anyway.
[[nodiscard]] std::set<LocalId> nested_sums(const Block& body);

/// What HiddenTerms asks of a value: a set of bits.
using TermFacts = unsigned;

/// Floating sums that stay as they are under some condition. For vectors, GCC 12.2 makes
/// x + (c ? t : 0) of c ? x + t : x, and so 0 of -0 (convert_scalar_cond_reduction in
/// gcc/tree-if-conv.cc); and it makes that one of x - (c ? -1 : 0), and of other terms that a
/// condition makes constant. Emitters hide such terms: they pass through hide_function().
class HiddenTerms {
 public:
  explicit HiddenTerms(const Block& body);
  /// Whether any is in `body`.
  [[nodiscard]] bool any() const noexcept { return any_; }
  /// The facts of a value of `body`, or of copies of its statements, by those of its operands.
  [[nodiscard]] TermFacts facts(const Value& value, std::span<const TermFacts> of_operands) const;
  /// Whether operand `k` of such a value is one.
  [[nodiscard]] static bool hides(const Value& value, std::size_t k,
                                  std::span<const TermFacts> of_operands);

 private:
  static TermFacts constants_of_cast(const Value& cast, TermFacts of_operand);
  static TermFacts constants_of_op(const Value& op, std::span<const TermFacts> of_operands);

  std::map<BufferId, TermFacts> buffers_;  // what is known of their elements
  std::map<LocalId, TermFacts> locals_;
  bool any_ = false;
};

/// Loops that carry a dependence through memory, which GCC 12.2 is not to make vectors of. Where
/// it has unrolled the loops in such a one, it loads what several iterations read, and may read
/// from one another, before it stores what they write: its groups of neighbouring loads and stores
/// (tree-vect-data-refs.cc) pass over a load behind a store of an earlier iteration ("dependence
/// distance negative"). Found in 11.3 too; schedules make vectors of what they know to be apart.
class ScalarLoops {
 public:
  ScalarLoops(const Loop& loop, const LanePlan& plan);
  /// Emitters put an empty asm statement at the end of the loop's body. Loops in it become vectors
  /// still.
  [[nodiscard]] bool ends_with_asm(const Stmt& loop) const;
  /// What the loop's own statements store to these buffers passes through an empty asm statement:
  /// of innermost loops, as GCC then keeps values of the iteration before in registers.
  [[nodiscard]] std::set<BufferId> hidden_stores(const Stmt& loop) const;

 private:
  struct Guard {
    bool ends_with_asm = false;
    std::set<BufferId> hidden_stores;
  };
  std::map<VarId, Guard> guards_;
};

/// The registers that values of a type lie in, as asm operands name them.
[[nodiscard]] std::string_view asm_register(DType type) noexcept;

/// (T value, u64 zero) -> T: the value, of which compilers know nothing that do not know `zero`.
[[nodiscard]] PrimFunction hide_function(DType type);

}  // namespace heddle::jit
