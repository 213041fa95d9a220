// Builds expressions and statements: typing of operands and literals, assignments.
#include "jit/describe/expr.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "heddle/status.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/describe/tensor.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"
#include "jit/value/literal.hpp"
#include "scheduler/threads/floating.hpp"

namespace heddle {
namespace {

using jit::ExprKind;
using jit::ExprNode;
using jit::Op;
using jit::Scalar;
using NodePtr = std::shared_ptr<const ExprNode>;

NodePtr make_literal(const Scalar& scalar, bool weak) {
  ExprNode node;
  node.kind = ExprKind::constant;
  node.dtype = scalar.dtype;
  node.weak = weak;
  node.scalar = scalar;
  return std::make_shared<const ExprNode>(std::move(node));
}

[[noreturn]] void refuse(std::string text) {
  throw Error(ErrorCode::invalid_argument, std::move(text));
}

NodePtr with_args(ExprNode node) {
  for (const NodePtr& arg : node.args) node.depth = std::max(node.depth, arg->depth + 1);
  jit::each_position(node.subscripts, [&node](const ExprNode& position) {
    node.depth = std::max(node.depth, position.depth + 1);
  });
  if (node.depth > jit::expr_depth_max) {
    refuse(fmt::format("expression nests deeper than {} operations; store a part of it in a tensor",
                       jit::expr_depth_max));
  }
  return std::make_shared<const ExprNode>(std::move(node));
}

NodePtr cast_to(const NodePtr& arg, DType to) {
  if (arg->dtype == to && !arg->weak) return arg;
  if (arg->kind == ExprKind::constant) {
    const sched::DefaultFloating floating;
    return make_literal(jit::convert(arg->scalar, to), false);
  }
  ExprNode node;
  node.kind = ExprKind::cast;
  node.dtype = to;
  node.args = {arg};
  return with_args(std::move(node));
}

/// "u(i0) (u64) and n(i0) (i32)"
std::string show(const std::vector<NodePtr>& operands) {
  std::string text;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    if (k > 0) text += k + 1 == operands.size() ? " and " : ", ";
    text += fmt::format("{} ({})", jit::print_expr(*operands[k]),
                        operands[k]->weak ? "literal" : name(operands[k]->dtype));
  }
  return text;
}

/// Prints an integer.
std::string show(const Scalar& scalar) { return jit::print_expr(*make_literal(scalar, true)); }

/// The type of a literal beside an operand of type `strong`; an integer must fit.
DType meet(DType strong, const NodePtr& weak, Op op, const std::vector<NodePtr>& args) {
  const DType type = jit::literal_type(strong, weak->dtype);
  if (weak->kind == ExprKind::constant && is_integer(weak->dtype) && is_integer(type) &&
      !jit::fits(type, weak->scalar)) {
    refuse(
        fmt::format("literal {} does not fit {} in '{}' of {}; cast the other operand to a wider "
                    "type",
                    jit::print_expr(*weak), name(type), jit::op_info(op).name, show(args)));
  }
  return type;
}

/// Gives weak operands the common type of the other operands.
void type_literals(Op op, std::vector<NodePtr>& args) {
  const std::size_t first = op == Op::where ? 1 : 0;  // a condition keeps its own type
  std::optional<DType> strong;
  bool any_weak = false;
  for (std::size_t k = first; k < args.size(); ++k) {
    if (args[k]->weak) {
      any_weak = true;
    } else {
      const auto joined = strong ? jit::promote(*strong, args[k]->dtype) : args[k]->dtype;
      if (!joined) return;  // the type check that follows reports the error
      strong = joined;
    }
  }
  if (!strong || !any_weak) return;
  DType target = *strong;
  for (std::size_t k = first; k < args.size(); ++k) {
    if (args[k]->weak) target = meet(target, args[k], op, args);
  }
  for (std::size_t k = first; k < args.size(); ++k) {
    if (args[k]->weak) args[k] = cast_to(args[k], compute_type(target));
  }
}

Expr apply(Op op, std::vector<NodePtr> args) {
  type_literals(op, args);
  std::vector<DType> types;
  for (const NodePtr& arg : args) types.push_back(arg->dtype);
  const auto typing = jit::type_op(op, types);
  if (!typing) {
    const bool takes_bits = op == Op::uniform || jit::op_info(op).op_class == jit::OpClass::bits;
    refuse(fmt::format("'{}' has no meaning for {}: {}", jit::op_info(op).name, show(args),
                       takes_bits ? "it takes integers; convert with cast(x, u64)"
                                  : "they have no common type; convert one with cast(x, dtype)"));
  }
  ExprNode node;
  node.kind = ExprKind::op;
  node.op = op;
  node.dtype = typing->result;
  node.weak = std::ranges::all_of(args, &ExprNode::weak,
                                  [](const NodePtr& p) -> const ExprNode& { return *p; });
  node.args = std::move(args);
  return Inside::make<Expr>(with_args(std::move(node)));
}

Expr unary(Op op, const Expr& x) { return apply(op, {Inside::of(x)}); }
Expr binary(Op op, const Expr& a, const Expr& b) {
  return apply(op, {Inside::of(a), Inside::of(b)});
}

void require_subscripts(const Tensor& tensor, const std::vector<Subscript>& subscripts) {
  if (subscripts.size() != tensor.dims().size()) {
    refuse(fmt::format("tensor '{}' {} takes {} subscripts, got {}", tensor.label(),
                       tensor.type().to_string(), tensor.dims().size(), subscripts.size()));
  }
  for (std::size_t axis = 0; axis < subscripts.size(); ++axis) {
    if (subscripts[axis].overflow().empty()) continue;
    refuse(fmt::format("axis {} of '{}' {} is subscripted by {}, whose numbers do not fit 64 bits",
                       axis, tensor.label(), tensor.type().to_string(),
                       subscripts[axis].overflow()));
  }
}

Expr read(ExprKind kind, const Tensor& tensor, const std::vector<Subscript>& subscripts) {
  require_subscripts(tensor, subscripts);
  ExprNode node;
  node.kind = kind;
  node.dtype = tensor.dtype();
  node.tensor = tensor;
  node.subscripts = subscripts;
  return Inside::make<Expr>(with_args(std::move(node)));
}

/// "n i32[2], m i8[2]": the tensors that an expression reads, shortened for messages.
std::string show_reads(const ExprNode& value) {
  constexpr std::size_t shown_max = 4;
  std::vector<Tensor> seen;
  jit::walk(value, [&](const ExprNode& node) {
    if (node.tensor && seen.size() <= shown_max &&
        std::ranges::find(seen, *node.tensor) == seen.end())
      seen.push_back(*node.tensor);
  });
  std::string text;
  for (std::size_t k = 0; k < std::min(seen.size(), shown_max); ++k) {
    text += fmt::format("{}{} {}", k == 0 ? "" : ", ", seen[k].label(), seen[k].type().to_string());
  }
  return seen.empty() ? "no tensor" : seen.size() > shown_max ? text + ", ..." : text;
}

/// A literal integer assigned to an integer tensor must be a value of the tensor's type. A fraction
/// is converted, and any number converts to a truth value.
void require_fit(const jit::StatementNode& statement, const NodePtr& value) {
  const DType type = statement.target->dtype();
  if (value->kind != ExprKind::constant || !value->weak || is_floating(value->dtype) ||
      !is_integer(type) || jit::fits(type, value->scalar)) {
    return;
  }
  refuse(fmt::format(
      "literal {} does not fit tensor '{}' ({}, {} to {}) in {}; to wrap it, write cast({}, {})",
      jit::print_expr(*value), statement.target->label(), name(type),
      show(*jit::neutral(Op::max, type)), show(*jit::neutral(Op::min, type)),
      jit::print_statement(statement), jit::print_expr(*value), name(type)));
}

Statement assign(const Access& target, std::optional<Op> accumulate, bool neutral,
                 const Expr& value) {
  const Tensor& tensor = target.tensor();
  require_subscripts(tensor, target.subscripts());
  jit::StatementNode node;
  node.target = tensor;
  node.subscripts = target.subscripts();
  node.accumulate = accumulate;
  node.initialize_neutral = neutral;
  node.value = Inside::of(value);
  require_fit(node, Inside::of(value));
  node.value =
      Inside::of(value)->weak ? cast_to(Inside::of(value), tensor.dtype()) : Inside::of(value);
  if (accumulate && !jit::type_op(*accumulate, std::array{tensor.dtype(), node.value->dtype})) {
    refuse(fmt::format(
        "tensor '{}' ({}) cannot accumulate ({}) a value of {} (it reads {}) in {}: they have no "
        "common type; convert it with cast(x, dtype)",
        tensor.label(), name(tensor.dtype()), jit::op_info(*accumulate).name,
        name(node.value->dtype), show_reads(*node.value), jit::print_statement(node)));
  }
  return Inside::make<Statement>(std::make_shared<const jit::StatementNode>(std::move(node)));
}

Op reduction_op(Reduction::Kind kind) {
  switch (kind) {
    case Reduction::Kind::sum:
      return Op::add;
    case Reduction::Kind::product:
      return Op::mul;
    case Reduction::Kind::maximum:
      return Op::max;
    case Reduction::Kind::minimum:
      return Op::min;
    case Reduction::Kind::all:
      return Op::and_;
    case Reduction::Kind::any:
      return Op::or_;
  }
  return Op::add;
}

}  // namespace

Expr::Node Expr::bool_literal(bool constant) {
  return make_literal(Scalar::of_int(DType::bool_, constant ? 1 : 0), true);
}
Expr::Node Expr::float_literal(double constant) {
  return make_literal(Scalar::of_float(DType::f64, constant), true);
}
Expr::Node Expr::float_literal(float constant) {
  const sched::DefaultFloating floating;
  return float_literal(static_cast<double>(constant));
}
Expr::Node Expr::signed_literal(std::int64_t constant) {
  return make_literal(Scalar::of_int(DType::i64, constant), true);
}
Expr::Node Expr::unsigned_literal(std::uint64_t constant) {
  const bool is_large = !std::in_range<std::int64_t>(constant);
  return make_literal(
      Scalar::of_int(is_large ? DType::u64 : DType::i64, static_cast<std::int64_t>(constant)),
      true);
}

Access::Access(const Tensor& tensor, std::vector<Subscript> subscripts)
    : tensor_(std::make_shared<const Tensor>(tensor)), subscripts_(std::move(subscripts)) {}
Access::operator Expr() const { return read(ExprKind::read, *tensor_, subscripts_); }
Expr MergeAccess::at(std::vector<Subscript> subscripts) const {
  return read(ExprKind::merge, tensor_, subscripts);
}

Statement Access::operator=(const Expr& value) const { return assign(*this, {}, false, value); }
Statement Access::operator=(const Reduction& value) const {
  return assign(*this, reduction_op(value.kind()), true, value.value());
}
Statement Access::operator+=(const Expr& value) const {
  return assign(*this, Op::add, false, value);
}
Statement Access::operator-=(const Expr& value) const {
  return assign(*this, Op::sub, false, value);
}
Statement Access::operator*=(const Expr& value) const {
  return assign(*this, Op::mul, false, value);
}
Statement Access::operator/=(const Expr& value) const {
  return assign(*this, Op::div, false, value);
}
Statement Access::operator&=(const Expr& value) const {
  return assign(*this, Op::and_, false, value);
}
Statement Access::operator|=(const Expr& value) const {
  return assign(*this, Op::or_, false, value);
}
Statement Access::max_with(const Expr& value) const { return assign(*this, Op::max, false, value); }
Statement Access::min_with(const Expr& value) const { return assign(*this, Op::min, false, value); }

Expr operator+(const Expr& a, const Expr& b) { return binary(Op::add, a, b); }
Expr operator-(const Expr& a, const Expr& b) { return binary(Op::sub, a, b); }
Expr operator*(const Expr& a, const Expr& b) { return binary(Op::mul, a, b); }
Expr operator/(const Expr& a, const Expr& b) { return binary(Op::div, a, b); }
Expr operator%(const Expr& a, const Expr& b) { return binary(Op::mod, a, b); }
Expr operator-(const Expr& a) { return unary(Op::neg, a); }
Expr operator!(const Expr& a) { return unary(Op::not_, a); }
Expr operator<(const Expr& a, const Expr& b) { return binary(Op::lt, a, b); }
Expr operator<=(const Expr& a, const Expr& b) { return binary(Op::le, a, b); }
Expr operator>(const Expr& a, const Expr& b) { return binary(Op::lt, b, a); }
Expr operator>=(const Expr& a, const Expr& b) { return binary(Op::le, b, a); }
Expr operator==(const Expr& a, const Expr& b) { return binary(Op::eq, a, b); }
Expr operator!=(const Expr& a, const Expr& b) { return binary(Op::ne, a, b); }
Expr operator&&(const Expr& a, const Expr& b) { return binary(Op::and_, a, b); }
Expr operator||(const Expr& a, const Expr& b) { return binary(Op::or_, a, b); }
Expr pow(const Expr& a, const Expr& b) { return binary(Op::pow, a, b); }
Expr max(const Expr& a, const Expr& b) { return binary(Op::max, a, b); }
Expr min(const Expr& a, const Expr& b) { return binary(Op::min, a, b); }
Expr relu_gate(const Expr& a, const Expr& b) { return binary(Op::relu_gate, a, b); }
Expr satur01_gate(const Expr& a, const Expr& b) { return binary(Op::satur01_gate, a, b); }
Expr arg1(const Expr& a, const Expr& b) { return binary(Op::arg1, a, b); }
Expr arg2(const Expr& a, const Expr& b) { return binary(Op::arg2, a, b); }
Expr threefry(const Expr& key, const Expr& counter) { return binary(Op::threefry, key, counter); }
Expr threefry_light(const Expr& key, const Expr& counter) {
  return binary(Op::threefry_light, key, counter);
}
Expr identity(const Expr& x) { return unary(Op::identity, x); }
Expr relu(const Expr& x) { return unary(Op::relu, x); }
Expr satur01(const Expr& x) { return unary(Op::satur01, x); }
Expr abs(const Expr& x) { return unary(Op::abs, x); }
Expr trunc(const Expr& x) { return unary(Op::trunc, x); }
Expr floor(const Expr& x) { return unary(Op::floor, x); }
Expr ceil(const Expr& x) { return unary(Op::ceil, x); }
Expr exp(const Expr& x) { return unary(Op::exp, x); }
Expr log(const Expr& x) { return unary(Op::log, x); }
Expr exp2(const Expr& x) { return unary(Op::exp2, x); }
Expr log2(const Expr& x) { return unary(Op::log2, x); }
Expr sin(const Expr& x) { return unary(Op::sin, x); }
Expr cos(const Expr& x) { return unary(Op::cos, x); }
Expr tanh(const Expr& x) { return unary(Op::tanh, x); }
Expr erf(const Expr& x) { return unary(Op::erf, x); }
Expr sqrt(const Expr& x) { return unary(Op::sqrt, x); }
Expr recip(const Expr& x) { return unary(Op::recip, x); }
Expr rsqrt(const Expr& x) { return unary(Op::rsqrt, x); }
Expr uniform(const Expr& bits) { return unary(Op::uniform, bits); }
Expr where(const Expr& condition, const Expr& a, const Expr& b) {
  return apply(Op::where, {Inside::of(condition), Inside::of(a), Inside::of(b)});
}
Expr fma(const Expr& a, const Expr& b, const Expr& c) {
  return apply(Op::fma, {Inside::of(a), Inside::of(b), Inside::of(c)});
}
Expr mul3(const Expr& a, const Expr& b, const Expr& c) {
  return apply(Op::mul3, {Inside::of(a), Inside::of(b), Inside::of(c)});
}
Expr cast(const Expr& x, DType to) {
  jit::require_dtype("cast", to);
  return Inside::make<Expr>(cast_to(Inside::of(x), to));
}

Expr embed(const Subscript& index) {
  if (!index.overflow().empty())
    refuse(fmt::format("embed of {}: its numbers do not fit 64 bits", index.overflow()));
  if (index.is_computed()) {
    refuse(fmt::format("embed({}) takes indices; what at() takes is a value already",
                       jit::print_subscript(index)));
  }
  ExprNode node;
  node.kind = ExprKind::embed;
  node.dtype = DType::i64;
  node.subscripts = {index};
  return Inside::make<Expr>(std::make_shared<const ExprNode>(std::move(node)));
}

Subscript at(const Expr& position) {
  NodePtr node = Inside::of(position);
  if (!is_integer(node->dtype)) {
    refuse(
        fmt::format("at({}) is a position of {} (expected an integer type); convert it with "
                    "cast(x, i64)",
                    jit::print_expr(*node), name(node->dtype)));
  }
  if (node->weak) node = cast_to(node, node->dtype);
  return Inside::with_position(Subscript(0), std::move(node));
}

namespace jit {

Expr apply_op(Op op, const std::vector<Expr>& args) {
  std::vector<NodePtr> nodes;
  for (const Expr& arg : args) nodes.push_back(Inside::of(arg));
  return apply(op, std::move(nodes));
}

Statement in_order(const Statement& statement, std::vector<Subscript> subscripts) {
  StatementNode node = *Inside::of(statement);
  node.order = std::move(subscripts);
  return Inside::make<Statement>(std::make_shared<const StatementNode>(std::move(node)));
}

Statement sorted(const Statement& assignment) {
  StatementNode node = *Inside::of(assignment);
  node.sorts = true;
  return Inside::make<Statement>(std::make_shared<const StatementNode>(std::move(node)));
}

Expr typed_constant(const Scalar& scalar) {
  return Inside::make<Expr>(make_literal(scalar, false));
}

}  // namespace jit
}  // namespace heddle
