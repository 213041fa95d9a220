// The nodes behind Expr and Statement: what lowering walks. Immutable; any thread may read them.
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

/// Expressions nest at most this deep: tree walks may recurse.
inline constexpr int expr_depth_max = 1000;

enum class ExprKind : std::uint8_t {
  constant,  ///< weak scalar: takes the type of what it meets
  read,      ///< tensor(subscripts)
  merge,     ///< merge(tensor)(subscripts)
  embed,     ///< index value, i64
  op,
  cast,
};

struct ExprNode {
  ExprKind kind = ExprKind::constant;
  /// Type of the value: f16 and bf16 only for reads and casts. Weak constants carry bool, i64 or
  /// f64.
  DType dtype = DType::f32;
  bool weak = false;                                  ///< built from literals alone
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
  bool reduced;  ///< missing on the left
};

/// A comment, or target(subscripts) [accumulate]= value.
struct StatementNode {
  std::string comment;  ///< set: this is a comment
  std::optional<Tensor> target;
  std::vector<Subscript> subscripts;
  /// How the value joins the target: nullopt is plain assignment. add, sub, mul, div, and_, or_,
  /// max, min.
  std::optional<Op> accumulate;
  /// Start from neutral(accumulate) instead of what the target held.
  bool initialize_neutral = false;
  std::shared_ptr<const ExprNode> value;
  /// Indices that count as met behind those of the left side, before those of the value.
  std::vector<Subscript> order{};
  // Set when it is appended to a program:
  std::vector<SpaceAxis> space{};  ///< see iteration_space()
  StatementForm form{};
};

/// Calls `visit` with each computed position of these subscripts, in order.
template <class Visit>
void each_position(const std::vector<Subscript>& subscripts, const Visit& visit) {
  for (const Subscript& subscript : subscripts) {
    if (const auto& position = Inside::position_of(subscript)) visit(*position);
  }
}

/// Calls `visit` with each node once, in the order in which they are computed. Expressions share
/// their parts: e = e * e, thirty times, is thirty nodes but a tree of 2^30.
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

/// Operands before their operation, positions before what they subscript.
template <class Visit>
void walk(const ExprNode& root, const Visit& visit) {
  NodeWalk(visit).node(root);
}
/// All that a statement computes: the positions of its left side, then its value.
template <class Visit>
void walk(const StatementNode& statement, const Visit& visit) {
  NodeWalk all(visit);
  all.positions(statement.subscripts);
  all.node(*statement.value);
}

/// An operation on expressions, typed as those of heddle/expr.hpp, which come down to it.
[[nodiscard]] Expr apply_op(Op op, const std::vector<Expr>& args);
/// The statement with the indices of these subscripts in this order, where the left side has none
/// of them.
[[nodiscard]] Statement in_order(const Statement& statement, std::vector<Subscript> subscripts);
/// A constant of a type of its own.
[[nodiscard]] Expr typed_constant(const Scalar& scalar);

/// The iteration space of a statement: its indices in order (left-hand side first, then by first
/// appearance on the right) with their extents. Throws invalid_argument on clashes, see
/// Program::operator<<.
[[nodiscard]] std::vector<SpaceAxis> iteration_space(const StatementNode& statement);

}  // namespace heddle::jit
