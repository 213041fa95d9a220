// Elementwise operations on nodes: converts numbers to a type, and broadcasts shapes.
#include <fmt/format.h>

#include <limits>
#include <optional>

#include "heddle/graph.hpp"
#include "jit/describe/bitcast.hpp"
#include "jit/describe/expr.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/graph/called.hpp"
#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"
#include "jit/value/literal.hpp"

namespace heddle {
namespace {

using jit::GraphNode;
using jit::NodeKind;
using jit::Op;
using Operands = std::span<const Operand* const>;

/// The common type of the node operands (a condition excluded); nullopt where the nodes have no
/// common type, or where all operands are numbers.
std::optional<DType> strong_type(Op op, Operands operands) {
  std::optional<DType> strong;
  for (std::size_t k = op == Op::where ? 1 : 0; k < operands.size(); ++k) {
    if (operands[k]->number()) continue;
    const DType dtype = operands[k]->node().dtype();
    const auto joined = strong ? jit::promote(*strong, dtype) : dtype;
    if (!joined) return std::nullopt;  // the node's type check reports the problem
    strong = joined;
  }
  return strong;
}

/// A number as a node, of a type that follows from the other operands, as in expressions.
Node number_node(Op op, Operands operands, std::size_t k, const jit::Called& call) {
  const jit::ExprNode& literal = *Inside::of(*operands[k]->number());
  const bool is_condition = op == Op::where && k == 0;
  const auto strong = is_condition ? std::optional(DType::bool_) : strong_type(op, operands);
  DType type = literal.dtype == DType::f64 ? DType::f32 : literal.dtype;
  if (strong) type = compute_type(jit::literal_type(*strong, literal.dtype));
  if (is_integer(literal.dtype) && is_integer(type) && !jit::fits(type, literal.scalar)) {
    call.refuse(fmt::format("the number {} does not fit {}; cast the node to a wider type",
                            jit::print_expr(literal), name(type)));
  }
  jit::require_finite(literal, type, call);
  return jit::constant_node(call.graph(), literal.scalar, type, call.where());
}

std::string show_shapes(std::span<const Dims> shapes) {
  std::string text;
  for (const Dims& dims : shapes)
    text += fmt::format("{}[{}]", text.empty() ? "" : " and ", fmt::join(dims, ","));
  return text;
}

Node apply(Op op, std::string_view what, std::initializer_list<const Operand*> list) {
  const Operands operands(list.begin(), list.size());
  const std::source_location where = operands[0]->where();
  const jit::Called call(what, where, operands);
  if (call.graph() == nullptr) {
    call.refuse(
        "of numbers alone: one operand at least is a node; Graph::constant() makes one of a "
        "number");
  }
  std::vector<Node> args;
  std::vector<Dims> shapes;
  for (std::size_t k = 0; k < operands.size(); ++k) {
    args.push_back(operands[k]->number() ? number_node(op, operands, k, call)
                                         : operands[k]->node());
    shapes.push_back(args.back().dims());
  }
  const auto dims = jit::broadcast_dims(shapes);
  if (!dims) {
    call.refuse(
        fmt::format("shapes {} do not broadcast: from the last axis on, extents are "
                    "equal or 1; reshape one, or say how with broadcast_in_dim()",
                    show_shapes(shapes)));
  }
  GraphNode node;
  node.kind = NodeKind::element;
  node.op = op;
  for (const Node& arg : args)
    node.args.push_back(jit::id_of(jit::broadcast_as(arg, *dims, where)));
  return jit::make_node(call.graph(), std::move(node), where);
}

Node apply(Op op, std::initializer_list<const Operand*> list) {
  return apply(op, jit::op_info(op).name, list);
}

/// x^exponent by products and a root, with an error below 1.5 units of the last place; none for
/// other exponents.
std::optional<Node> short_power(const Node& x, double exponent, std::source_location where) {
  const auto at = [&](const auto& operand) { return Operand(operand, where); };
  if (exponent == 2) return at(x) * at(x);
  if (exponent == 3) return at(at(x) * at(x)) * at(x);
  if (exponent == -1) return recip(at(x));
  if (exponent != -0.5 && exponent != 0.5 && exponent != 1.5) return std::nullopt;
  const Operand positive = at(at(x) + at(0));  // -0 becomes 0
  const Operand root = at(sqrt(positive));
  Node power = root.node();
  if (exponent == 1.5) power = positive * root;
  if (exponent == -0.5) power = recip(root);
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const Operand is_lowest = at(at(x) == at(-infinity)), of_lowest = at(exponent < 0 ? 0 : infinity),
                otherwise = at(power);
  return apply(Op::where, {&is_lowest, &of_lowest, &otherwise});
}

struct BitcastMaker {
  [[nodiscard]] Operand at(const Node& x) const { return {x, where}; }
  [[nodiscard]] Node apply(Op op, const Node& x) const {
    const Operand operand = at(x);
    return heddle::apply(op, {&operand});
  }
  std::source_location where;
};

}  // namespace

// Friends that are declared only in their class get the visibility in effect here.
#pragma GCC visibility push(default)

Node operator+(const Operand& a, const Operand& b) { return apply(Op::add, {&a, &b}); }
Node operator-(const Operand& a, const Operand& b) { return apply(Op::sub, {&a, &b}); }
Node operator*(const Operand& a, const Operand& b) { return apply(Op::mul, {&a, &b}); }
Node operator/(const Operand& a, const Operand& b) { return apply(Op::div, {&a, &b}); }
Node operator%(const Operand& a, const Operand& b) { return apply(Op::mod, {&a, &b}); }
Node operator-(const Operand& a) { return apply(Op::neg, {&a}); }
Node operator!(const Operand& a) { return apply(Op::not_, {&a}); }
Node operator&&(const Operand& a, const Operand& b) { return apply(Op::and_, {&a, &b}); }
Node operator||(const Operand& a, const Operand& b) { return apply(Op::or_, {&a, &b}); }
Node operator<(const Operand& a, const Operand& b) { return apply(Op::lt, {&a, &b}); }
Node operator<=(const Operand& a, const Operand& b) { return apply(Op::le, {&a, &b}); }
Node operator>(const Operand& a, const Operand& b) {
  const jit::Called call("gt", a.where(), a, b);
  return apply(Op::lt, {&b, &a});
}
Node operator>=(const Operand& a, const Operand& b) {
  const jit::Called call("ge", a.where(), a, b);
  return apply(Op::le, {&b, &a});
}
Node operator==(const Operand& a, const Operand& b) { return apply(Op::eq, {&a, &b}); }
Node operator!=(const Operand& a, const Operand& b) { return apply(Op::ne, {&a, &b}); }
Node pow(const Operand& a, const Operand& b) {
  const jit::Called call("pow", a.where(), a, b);
  const bool by_number = call.graph() != nullptr && !a.number() && b.number() &&
                         (a.node().dtype() == DType::f32 || a.node().dtype() == DType::f64);
  if (by_number) {
    const jit::ExprNode& exponent = *Inside::of(*b.number());
    const double value =
        is_floating(exponent.dtype) ? exponent.scalar.f : static_cast<double>(exponent.scalar.i);
    if (const auto power = short_power(a.node(), value, a.where())) return *power;
  }
  return apply(Op::pow, {&a, &b});
}
Node max(const Operand& a, const Operand& b) { return apply(Op::max, {&a, &b}); }
Node min(const Operand& a, const Operand& b) { return apply(Op::min, {&a, &b}); }
Node relu_gate(const Operand& a, const Operand& b) { return apply(Op::relu_gate, {&a, &b}); }
Node satur01_gate(const Operand& a, const Operand& b) { return apply(Op::satur01_gate, {&a, &b}); }
Node arg1(const Operand& a, const Operand& b) { return apply(Op::arg1, {&a, &b}); }
Node arg2(const Operand& a, const Operand& b) { return apply(Op::arg2, {&a, &b}); }
Node threefry(const Operand& key, const Operand& counter) {
  return apply(Op::threefry, {&key, &counter});
}
Node threefry_light(const Operand& key, const Operand& counter) {
  return apply(Op::threefry_light, {&key, &counter});
}
Node where(const Operand& condition, const Operand& a, const Operand& b) {
  return apply(Op::where, {&condition, &a, &b});
}
Node select(const Operand& condition, const Operand& a, const Operand& b) {
  return apply(Op::where, "select", {&condition, &a, &b});
}
Node fma(const Operand& a, const Operand& b, const Operand& c) {
  return apply(Op::fma, {&a, &b, &c});
}
Node mul3(const Operand& a, const Operand& b, const Operand& c) {
  return apply(Op::mul3, {&a, &b, &c});
}
Node identity(const Operand& x) { return apply(Op::identity, {&x}); }
Node relu(const Operand& x) { return apply(Op::relu, {&x}); }
Node satur01(const Operand& x) { return apply(Op::satur01, {&x}); }
Node abs(const Operand& x) { return apply(Op::abs, {&x}); }
Node trunc(const Operand& x) { return apply(Op::trunc, {&x}); }
Node floor(const Operand& x) { return apply(Op::floor, {&x}); }
Node ceil(const Operand& x) { return apply(Op::ceil, {&x}); }
Node exp(const Operand& x) { return apply(Op::exp, {&x}); }
Node log(const Operand& x) { return apply(Op::log, {&x}); }
Node exp2(const Operand& x) { return apply(Op::exp2, {&x}); }
Node log2(const Operand& x) { return apply(Op::log2, {&x}); }
Node sin(const Operand& x) { return apply(Op::sin, {&x}); }
Node cos(const Operand& x) { return apply(Op::cos, {&x}); }
Node tanh(const Operand& x) { return apply(Op::tanh, {&x}); }
Node erf(const Operand& x) { return apply(Op::erf, {&x}); }
Node sqrt(const Operand& x) { return apply(Op::sqrt, {&x}); }
Node recip(const Operand& x) { return apply(Op::recip, {&x}); }
Node rsqrt(const Operand& x) { return apply(Op::rsqrt, {&x}); }
Node uniform(const Operand& bits) { return apply(Op::uniform, {&bits}); }

Node cast(const Operand& x, DType to) {
  const jit::Called call("cast", x.where(), x);
  if (call.graph() == nullptr) call.refuse("of a number; Graph::constant() makes a node of one");
  call.require_dtype(to);
  if (x.node().dtype() == to) return x.node();
  GraphNode node;
  node.kind = NodeKind::cast;
  node.type = {to, {}};
  node.args = {jit::id_of(x.node())};
  return jit::make_node(call.graph(), std::move(node), x.where());
}

Node bitcast(const Operand& x, DType to) {
  const jit::Called call("bitcast", x.where(), x);
  if (call.graph() == nullptr) call.refuse("of a number; Graph::constant() makes a node of one");
  call.require_dtype(to);
  const DType from = x.node().dtype();
  if (!jit::can_bitcast(from, to)) {
    call.refuse(fmt::format("to {}: {}", name(to), jit::bitcast_cure(from, to)));
  }
  return jit::Bitcast<Node, BitcastMaker>({x.where()}).make(x.node(), from, to);
}

Node clamp(const Operand& x, const Operand& low, const Operand& high) {
  const jit::Called call("clamp", x.where(), x, low, high);
  if (x.number() && high.number()) {  // the same result, with a node in each step
    if (low.number()) call.refuse("of numbers alone; Graph::constant() makes a node of one");
    return min(Operand(max(x, low), x.where()), Operand(max(high, low), x.where()));
  }
  return max(low, Operand(min(x, high), x.where()));
}

#pragma GCC visibility pop

}  // namespace heddle
