// See graph/state.hpp.
#include "jit/graph/state.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <functional>
#include <numeric>

#include "heddle/status.hpp"
#include "jit/describe/expr.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/graph/called.hpp"
#include "jit/system/inside.hpp"
#include "jit/system/limits.hpp"
#include "jit/value/literal.hpp"

namespace heddle::jit {
namespace {

/// FNV-1a over the fields of a node.
class NodeHash {
 public:
  NodeHash& mix(std::uint64_t field) noexcept {
    hash_ = (hash_ ^ field) * 0x100000001b3u;
    hash_ ^= hash_ >> 29U;
    return *this;
  }
  [[nodiscard]] std::size_t value() const noexcept { return hash_; }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

[[noreturn]] void refuse_graph(std::string text) {
  throw Error(ErrorCode::invalid_argument, std::move(text));
}

/// True if `type` represents every value of `other`.
bool holds(DType type, DType other) {
  if (promote(type, other) != type) return false;
  if (!is_floating(type) || is_floating(other)) return true;
  const auto significand = [](DType t) {
    return t == DType::f64 ? 53U : t == DType::f32 ? 24U : t == DType::f16 ? 11U : 8U;
  };
  const std::size_t bits = other == DType::bool_ ? 1 : 8 * size_of(other);
  return bits - (info(other).is_signed ? 1 : 0) <= significand(type);
}

}  // namespace

std::string show(std::source_location where) {
  const std::string_view path = where.file_name();
  return fmt::format("{}:{}", path.substr(path.rfind('/') + 1), where.line());
}

std::string at(std::source_location where) {
  return where.line() == 0 ? std::string() : fmt::format(", at {}", show(where));
}

GraphState::GraphState(std::string graph_name)
    : name(std::move(graph_name)), known_(16, Hash{this}, Equal{this}), known_scopes_{{"", 0}} {}

std::uint32_t GraphState::scope_at(std::string path) {
  const auto [at, fresh] = known_scopes_.emplace(path, static_cast<std::uint32_t>(scopes.size()));
  if (fresh) scopes.push_back(std::move(path));
  return at->second;
}

std::size_t GraphState::Hash::operator()(NodeId id) const noexcept {
  const GraphNode& node = graph->node(id);
  NodeHash hash;
  hash.mix(static_cast<std::uint64_t>(node.kind)).mix(static_cast<std::uint64_t>(node.op));
  hash.mix(std::hash<ArrayType>()(node.type));
  for (const NodeId arg : node.args) hash.mix(arg);
  for (const Numbers& field : node.fields) {
    hash.mix(field.size());
    for (const std::int64_t number : field) hash.mix(static_cast<std::uint64_t>(number));
  }
  hash.mix(static_cast<std::uint64_t>(node.scalar.i));
  hash.mix(std::bit_cast<std::uint64_t>(node.scalar.f));
  return hash.value();
}

void GraphState::require_unfinished(std::string_view what, std::source_location where) const {
  if (!finished) return;
  const Called* const outermost = Called::on_finished();
  const std::string operation = outermost == nullptr
                                    ? fmt::format("'{}'", what)
                                    : naming(outermost->what(), outermost->operands());
  throw Error(ErrorCode::failed_precondition,
              fmt::format("graph '{}' is finished, and takes no more nodes: {}{}; make them before "
                          "finish(), or a graph of their own",
                          name, operation, at(where)));
}

NodeId GraphState::add(GraphNode node, std::source_location where) {
  require_unfinished(title(node), where);
  count_step();
  node.type = checked_type(node, where);
  const auto id = static_cast<NodeId>(nodes.size());
  nodes.push_back({std::move(node), where, scope()});
  const auto [at, fresh] = known_.insert(id);
  if (!fresh) nodes.pop_back();
  return *at;
}

ArrayType GraphState::checked_type(const GraphNode& node, std::source_location where) const {
  std::vector<ArrayType> types;
  types.reserve(node.args.size());
  for (const NodeId arg : node.args) types.push_back(type(arg));
  std::string problem;
  try {
    ArrayType found = type_of(node, types);
    if (found.num_bytes()) return found;
    problem =
        fmt::format("its result would be {}, whose size passes 2^63 bytes", found.to_string());
  } catch (const Error& error) {
    problem = error.status().message();
  }
  refuse(title(node), node.args, problem, where);
}

std::string GraphState::naming(std::string_view operation, std::span<const NodeId> operands) const {
  std::string text = fmt::format("'{}'", operation);
  for (std::size_t k = 0; k < operands.size(); ++k) {
    const std::string_view joint = k == 0 ? " of " : k + 1 == operands.size() ? " and " : ", ";
    text.append(joint).append(show(operands[k]));
  }
  return text;
}

void GraphState::refuse(std::string_view what, std::span<const NodeId> operands,
                        std::string_view problem, std::source_location where) const {
  std::string text;
  if (called != nullptr) text = naming(called->what(), called->operands()) + ": ";
  const bool is_within = called != nullptr && (called->what() == what ||
                                               std::ranges::equal(called->operands(), operands));
  if (!is_within) text += naming(what, operands) + ": ";
  refuse_graph(fmt::format("{}{}{}", text, problem, at(where)));
}

std::string GraphState::show(NodeId id) const {
  const GraphNode& made = node(id);
  std::string what(title(made));
  if (made.kind == NodeKind::parameter) {
    what = fmt::format("'{}'", parameter_names[static_cast<std::size_t>(made.fields[0][0])]);
  }
  const std::source_location where = nodes[id].where;
  return fmt::format("%{} {} {}{}", id, what, made.type.to_string(),
                     where.line() == 0 ? std::string() : fmt::format(" ({})", jit::show(where)));
}

std::vector<bool> GraphState::live() const {
  std::vector<bool> needed(nodes.size(), false);
  for (const NodeId id : results) needed[id] = true;
  for (const auto& [id, text] : marks) needed[id] = true;
  for (std::size_t id = nodes.size(); id-- > 0;) {
    if (!needed[id]) continue;
    for (const NodeId arg : nodes[id].node.args) needed[arg] = true;
  }
  for (const NodeId id : parameters) needed[id] = true;
  return needed;
}

const std::shared_ptr<GraphState>& graph_of(const Node& node, std::string_view what,
                                            std::source_location where) {
  const auto& state = Inside::of(node);
  if (state == nullptr) {
    refuse_graph(
        fmt::format("'{}' is given a node of no graph (one that was only declared); make it by a "
                    "graph or by an operation first{}",
                    what, at(where)));
  }
  return state;
}

void refuse_two_graphs(GraphPlace one, GraphPlace other, std::string_view what,
                       std::source_location where) {
  refuse_graph(
      fmt::format("'{}' of {} of graph '{}' and {} of graph '{}': nodes of two graphs do not "
                  "meet; make both in one{}",
                  what, one.graph->show(one.id), one.graph->name, other.graph->show(other.id),
                  other.graph->name, at(where)));
}

NodeId id_of(const Node& node) noexcept { return Inside::id_of(node); }

Graph graph_with(const Node& node) { return Inside::make<Graph>(graph_of(node, "graph")); }

Node make_node(const std::shared_ptr<GraphState>& graph, GraphNode node,
               std::source_location where) {
  const NodeId id = graph->add(std::move(node), where);
  return Inside::make<Node>(graph, id);
}

Node constant_node(const std::shared_ptr<GraphState>& graph, const Scalar& value, DType dtype,
                   std::source_location where) {
  GraphNode node;
  node.kind = NodeKind::constant;
  node.type = {dtype};
  node.scalar = convert(value, dtype);
  return make_node(graph, std::move(node), where);
}

void require_finite(const ExprNode& literal, DType dtype, const Called& call) {
  const double number = is_integer(literal.dtype) ? 0 : literal.scalar.f;
  if (!is_floating(dtype) || !std::isfinite(number) ||
      std::isfinite(convert(literal.scalar, dtype).f))
    return;
  call.refuse(
      fmt::format("the number {} is too large for {}, which would make it infinite; take "
                  "a wider type",
                  print_expr(literal), heddle::name(dtype)));
}

/// Throws where the conversion to an integer or a bool would change the number.
void require_exact(const ExprNode& literal, DType dtype, const Called& call) {
  if (is_floating(dtype) || literal.dtype == DType::bool_) return;
  const std::string shown = print_expr(literal);
  const double number = convert(literal.scalar, DType::f64).f;
  if (dtype == DType::bool_) {
    if (number == 0 || number == 1) return;
    call.refuse(
        fmt::format("the number {} is none of bool (expected 0, 1, or a bool); compare it", shown));
  }
  if (is_integer(literal.dtype)) {
    if (fits(dtype, literal.scalar)) return;
    call.refuse(fmt::format("the number {} does not fit {}; take a wider type", shown,
                            heddle::name(dtype)));
  }
  // Conversions saturate at the largest integer, which as a float may round up to the next number.
  const auto bits = static_cast<int>(8 * size_of(dtype)) - (info(dtype).is_signed ? 1 : 0);
  const bool is_kept = number < std::ldexp(1.0, bits) &&
                       convert(convert(literal.scalar, dtype), DType::f64).f == number;
  if (!is_kept) {
    call.refuse(fmt::format("the number {} is none of {} (expected a whole number that it holds)",
                            shown, heddle::name(dtype)));
  }
}

Node operand_node(const Operand& operand, DType dtype, const Called& call) {
  if (!operand.number()) return cast(operand, dtype);
  const ExprNode& literal = *Inside::of(*operand.number());
  require_exact(literal, dtype, call);
  require_finite(literal, dtype, call);
  return constant_node(call.graph(), literal.scalar, dtype, operand.where());
}

Node typed_as(const Node& x, const Node& node, const Called& call) {
  if (holds(x.dtype(), node.dtype())) return cast(Operand(node, call.where()), x.dtype());
  call.refuse(fmt::format("{} does not hold all values of {}; convert one with cast()",
                          heddle::name(x.dtype()), heddle::name(node.dtype())));
}

DType common_type(std::span<const Node> nodes, const Called& call) {
  // Floats first: i64 and u64 have no common type, but either has a common type with floats.
  std::optional<DType> type;
  for (const bool floats : {true, false}) {
    for (const Node& each : nodes) {
      if (is_floating(each.dtype()) != floats) continue;
      const auto joined = type ? promote(*type, each.dtype()) : std::optional(each.dtype());
      if (!joined) call.refuse("they have no common type; convert one with cast(x, dtype)");
      type = joined;
    }
  }
  return type.value();
}

Node as_floating(const Node& x, std::source_location where) {
  return is_floating(x.dtype()) ? x : cast(Operand(x, where), DType::f32);
}

Node nearest_places(const Node& places, std::int64_t last, std::source_location where) {
  const bool is_signed = info(places.dtype()).is_signed;
  const DType wide = is_signed ? DType::i64 : DType::u64;
  const auto& graph = graph_of(places, "min");
  const Node high = constant_node(graph, Scalar::of_int(wide, last), wide, where);
  const Node low = min(Operand(cast(Operand(places, where), wide), where), Operand(high, where));
  const Node inside = is_signed ? max(Operand(low, where), Operand(0, where)) : low;
  return cast(Operand(inside, where), DType::i64);
}

std::int64_t axis_of(const ArrayType& type, std::int64_t axis, const Called& call) {
  const auto rank = static_cast<std::int64_t>(type.dims.size());
  if (axis >= -rank && axis < rank) return axis < 0 ? axis + rank : axis;
  const std::string shown = type.to_string();
  call.refuse(rank == 0 ? fmt::format("axis {} of {}, a scalar, which has none", axis, shown)
                        : fmt::format("axis {} is none of {} (expected {} to {})", axis, shown,
                                      -rank, rank - 1));
}

std::int64_t axis_of(const Node& node, std::int64_t axis, const Called& call) {
  return axis_of(node.type(), axis, call);
}

Numbers first_axes(std::size_t count) {
  Numbers axes(count);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

Axes swapped_axes(std::int64_t rank, std::int64_t a, std::int64_t b) {
  Axes order;
  order.resize(axis_index(rank));
  std::iota(order.begin(), order.end(), 0);
  std::swap(order[axis_index(a)], order[axis_index(b)]);
  return order;
}

Numbers axes_of(const Node& node, const Axes& axes, const Called& call) {
  Numbers found;
  for (const std::int64_t axis : axes) found.push_back(axis_of(node, axis, call));
  std::ranges::sort(found);
  const auto twice = std::ranges::adjacent_find(found);
  if (twice != found.end())
    call.refuse(fmt::format("axis {} is listed twice; list each once", *twice));
  return found;
}

std::optional<Dims> broadcast_dims(std::span<const Dims> shapes) {
  Dims result;
  for (const Dims& dims : shapes) {
    if (dims.size() > result.size()) result.insert(result.begin(), dims.size() - result.size(), 1);
    const std::size_t from = result.size() - dims.size();
    for (std::size_t k = 0; k < dims.size(); ++k) {
      if (dims[k] == result[from + k] || dims[k] == 1) continue;
      if (result[from + k] != 1) return std::nullopt;
      result[from + k] = dims[k];
    }
  }
  return result;
}

Node broadcast_as(const Node& node, const Dims& dims, std::source_location where) {
  if (node.dims() == dims) return node;
  GraphNode made;
  made.kind = NodeKind::broadcast;
  made.type = {node.dtype(), dims};
  made.args = {id_of(node)};
  Numbers axes;
  const std::size_t from = dims.size() - node.dims().size();
  for (std::size_t k = 0; k < node.dims().size(); ++k)
    axes.push_back(static_cast<std::int64_t>(from + k));
  made.fields = {std::move(axes)};
  return make_node(graph_of(node, "broadcast"), std::move(made), where);
}

}  // namespace heddle::jit
