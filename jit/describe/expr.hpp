// The nodes behind Expr and Statement, the input of lowering. Immutable; any thread may read them.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "heddle/program.hpp"
#include "jit/describe/form.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/ops.hpp"

namespace heddle::jit {

/// The largest depth of an expression. The bound allows tree walks to recurse.
inline constexpr int expr_depth_max = 1000;

enum class ExprKind : std::uint8_t {
  constant,  ///< weak scalar: takes the type of the other operands
  read,      ///< tensor(subscripts)
  merge,     ///< merge(tensor)(subscripts)
  embed,     ///< index value, i64
  op,
  cast,
};

struct ExprNode {
  ExprKind kind = ExprKind::constant;
  /// Type of the value: f16 and bf16 only for reads and casts. Weak constants have type bool, i64
  /// or f64.
  DType dtype = DType::f32;
  bool weak = false;                                  ///< built from literals only
  int depth = 1;                                      ///< longest path to a leaf, in nodes
  Scalar scalar;                                      // constant
  std::optional<Tensor> tensor;                       // read, merge
  std::vector<Subscript> subscripts;                  // read, merge; embed has one
  Op op = Op::identity;                               // op
  std::vector<std::shared_ptr<const ExprNode>> args;  // op, cast
};

/// One index of an iteration space.
struct SpaceAxis {
  Index index;
  std::int64_t extent;
  bool reduced;  ///< absent on the left side
};

/// A comment, or target(subscripts) [accumulate]= value.
struct StatementNode {
  std::string comment;  ///< not empty: the node is a comment
  std::optional<Tensor> target;
  std::vector<Subscript> subscripts;
  /// The operation that combines the value with the target: add, sub, mul, div, and_, or_, max,
  /// min. nullopt: plain assignment.
  std::optional<Op> accumulate;
  /// Starts from neutral(accumulate) instead of the target's old value.
  bool initialize_neutral = false;
  bool sorts = false;  ///< see sorted()
  std::shared_ptr<const ExprNode> value;
  /// Indices that come after the indices of the left side and before the indices of the value.
  std::vector<Subscript> order{};
  // Set when the node is appended to a program:
  std::vector<SpaceAxis> space{};  ///< see iteration_space()
  StatementForm form{};
};

/// Calls `visit` with each computed position of `subscripts`, in order.
template <class Visit>
void each_position(const std::vector<Subscript>& subscripts, const Visit& visit) {
  for (const Subscript& subscript : subscripts) {
    if (const auto& position = Inside::position_of(subscript)) visit(*position);
  }
}

/// Calls `visit` with each node once, in the order of computation. Expressions share parts: e = e *
/// e, repeated thirty times, has thirty nodes but is a tree of 2^30.
template <class Visit>
class NodeWalk {
 public:
  explicit NodeWalk(const Visit& visit) : visit_(visit) {}
  void node(const ExprNode& node) {
    if (!seen_.insert(&node).second) return;
    for (const auto& arg : node.args) this->node(*arg);
    positions(node.subscripts);
    visit_(node);
  }
  void positions(const std::vector<Subscript>& subscripts) {
    each_position(subscripts, [this](const ExprNode& position) { node(position); });
  }

 private:
  const Visit& visit_;
  std::unordered_set<const ExprNode*> seen_;
};

/// Visits operands before their operation, and positions before the node that they subscript.
template <class Visit>
void walk(const ExprNode& root, const Visit& visit) {
  NodeWalk(visit).node(root);
}
/// Visits every node that a statement computes: the positions of the left side, then the value.
template <class Visit>
void walk(const StatementNode& statement, const Visit& visit) {
  NodeWalk all(visit);
  all.positions(statement.subscripts);
  all.node(*statement.value);
}

/// An operation on expressions, typed like the operations of heddle/expr.hpp, which call
/// apply_op().
[[nodiscard]] Expr apply_op(Op op, const std::vector<Expr>& args);
/// The statement with the indices of `subscripts` in the given order, except indices of the left
/// side.
[[nodiscard]] Statement in_order(const Statement& statement, std::vector<Subscript> subscripts);
/// The assignment with the values along the last index of the left side in rising order: the last
/// subscript there is that index, the values are unsigned, and do not read the target.
[[nodiscard]] Statement sorted(const Statement& assignment);
/// A constant with a fixed type, which other operands do not change.
[[nodiscard]] Expr typed_constant(const Scalar& scalar);

/// The iteration space of a statement: its indices in order (left-hand side first, then by first
/// appearance on the right) with their extents. Throws invalid_argument on clashes, see
/// Program::operator<<.
[[nodiscard]] std::vector<SpaceAxis> iteration_space(const StatementNode& statement);

}  // namespace heddle::jit
