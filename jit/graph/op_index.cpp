// Operations at places that are computed: gather, scatter, windows.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"

namespace heddle {
namespace {

using jit::GraphNode;
using jit::NodeKind;
using jit::Numbers;

/// Integers of one shape.
void require_indices(std::span<const Node> indices, std::string_view what, CallSite where) {
  if (indices.empty()) jit::refuse_op(what, {}, "there are no indices", where);
  for (const Node& each : indices) {
    if (!is_integer(each.dtype()) || each.dtype() == DType::bool_) {
      jit::refuse_op(what, std::span(&each, 1), "indices are integers; convert with cast(x, i64)",
                     where);
    }
    if (each.dims() != indices[0].dims()) {
      jit::refuse_op(what, indices, "the indices have one shape; broadcast_to() gives it", where);
    }
  }
}

Numbers first_axes(std::size_t count) {
  Numbers axes;
  for (std::size_t k = 0; k < count; ++k) axes.push_back(static_cast<std::int64_t>(k));
  return axes;
}

Node gather_windows(const Node& x, const std::vector<Node>& indices, Numbers axes, Numbers sizes,
                    CallSite where) {
  if (indices[0].type().num_elements() == 0) {  // of nothing nothing is taken
    std::vector<std::int64_t> dims(indices[0].dims().begin(), indices[0].dims().end());
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    const Graph graph = Inside::make<Graph>(jit::graph_of(x, "gather"));
    return broadcast_to(graph.constant(false, x.dtype(), where), dims, where);
  }
  GraphNode node;
  node.kind = NodeKind::gather;
  node.type = {x.dtype(), {}};
  node.args = {jit::id_of(x)};
  for (const Node& each : indices) node.args.push_back(jit::id_of(each));
  node.fields = {std::move(axes), std::move(sizes)};
  return jit::make_node(jit::graph_of(x, "gather"), std::move(node), where);
}

/// Without the axes of one element that are at these places.
Node without_axes(const Node& x, std::size_t first, const Numbers& axes, CallSite where) {
  Axes gone;
  for (const std::int64_t axis : axes) gone.push_back(static_cast<std::int64_t>(first) + axis);
  return squeeze(x, gone, where);
}

/// All operands of one graph.
void require_common(const Node& x, std::span<const Node> others, std::string_view what,
                    CallSite where) {
  std::vector<Node> all{x};
  all.insert(all.end(), others.begin(), others.end());
  static_cast<void>(jit::common_graph(all, what, where));
}

/// As nodes, of which each is in the graph of x.
std::vector<Node> start_nodes(const Node& x, const std::vector<Operand>& starts,
                              std::string_view what, CallSite where) {
  const auto& graph = jit::graph_of(x, what);
  std::vector<Node> nodes;
  for (const Operand& each : starts) {
    nodes.push_back(each.number() ? jit::operand_node(each, graph, DType::i64, what) : each.node());
    if (nodes.back().rank() == 0) continue;
    jit::refuse_op(what, std::span(&nodes.back(), 1),
                   "starts are scalars, one for each axis; reshape() makes one of an element",
                   where);
  }
  require_common(x, nodes, what, where);
  if (std::ssize(nodes) != x.rank()) {
    jit::refuse_op(
        what, std::span(&x, 1),
        fmt::format("{} starts for {} axes (expected one for each)", nodes.size(), x.rank()),
        where);
  }
  return nodes;
}

/// Whether each value of the one type is one of the other.
bool holds(DType type, DType other) {
  if (jit::promote(type, other) != type) return false;
  if (!is_floating(type) || is_floating(other)) return true;
  const auto significand = [](DType t) {
    return t == DType::f64 ? 53U : t == DType::f32 ? 24U : t == DType::f16 ? 11U : 8U;
  };
  const std::size_t bits = other == DType::bool_ ? 1 : 8 * size_of(other);
  return bits - (info(other).is_signed ? 1 : 0) <= significand(type);
}

/// Of the type of x, where that holds all that they may be.
Node typed_updates(const Node& x, const Node& updates, std::string_view what, CallSite where) {
  if (holds(x.dtype(), updates.dtype())) return cast(Operand(updates, where), x.dtype());
  const Node both[] = {x, updates};
  jit::refuse_op(what, both,
                 fmt::format("{} does not hold all values of {}; convert one with cast()",
                             name(x.dtype()), name(updates.dtype())),
                 where);
}

Node scatter_windows(const Node& x, const std::vector<Node>& indices, Numbers axes,
                     const Node& updates, jit::Op op, CallSite where) {
  if (updates.type().num_elements() == 0) return x;
  GraphNode node;
  node.kind = NodeKind::scatter;
  node.op = op;
  node.type = {x.dtype(), {}};
  node.args = {jit::id_of(x), jit::id_of(updates)};
  for (const Node& each : indices) node.args.push_back(jit::id_of(each));
  node.fields = {std::move(axes)};
  return jit::make_node(jit::graph_of(x, "scatter"), std::move(node), where);
}

jit::Op op_of(Scatter how, const Node& x, CallSite where) {
  switch (how) {
    case Scatter::add:
      return jit::Op::add;
    case Scatter::multiply:
      return jit::Op::mul;
    case Scatter::maximum:
      return jit::Op::max;
    case Scatter::minimum:
      return jit::Op::min;
    case Scatter::set:
      return jit::Op::arg2;
  }
  jit::refuse_op("scatter", std::span(&x, 1),
                 fmt::format("how is {} (expected a value of Scatter)", static_cast<int>(how)),
                 where);
}

void require_leading(const Node& x, std::size_t count, std::string_view what, CallSite where) {
  if (static_cast<std::int64_t>(count) <= x.rank()) return;
  jit::refuse_op(what, std::span(&x, 1),
                 fmt::format("{} arrays of indices for {} axes", count, x.rank()), where);
}

}  // namespace

Node gather(const Node& x, const std::vector<Node>& indices, CallSite where) {
  require_common(x, indices, "gather", where);
  require_indices(indices, "gather", where);
  require_leading(x, indices.size(), "gather", where);
  const Numbers axes = first_axes(indices.size());
  Numbers sizes(x.dims().begin(), x.dims().end());
  std::fill_n(sizes.begin(), indices.size(), 1);
  return without_axes(gather_windows(x, indices, axes, std::move(sizes), where),
                      indices[0].dims().size(), axes, where);
}

Node take(const Node& x, const Node& indices, std::int64_t axis, CallSite where) {
  require_common(x, {&indices, 1}, "take", where);
  require_indices({&indices, 1}, "take", where);
  const std::int64_t along = jit::axis_of(x, axis, "take", where);
  Numbers sizes(x.dims().begin(), x.dims().end());
  sizes[jit::axis_index(along)] = 1;
  const Node rows = without_axes(gather_windows(x, {indices}, {along}, std::move(sizes), where),
                                 indices.dims().size(), {along}, where);
  // The axes of the indices are the first; they go where `axis` was.
  Axes order;
  const std::int64_t batch = indices.rank();
  for (std::int64_t k = 0; k < along; ++k) order.push_back(batch + k);
  for (std::int64_t k = 0; k < batch; ++k) order.push_back(k);
  for (std::int64_t k = along; k + 1 < x.rank(); ++k) order.push_back(batch + k);
  return transpose(rows, order, where);
}

Node take_along_axis(const Node& x, const Node& indices, std::int64_t axis, CallSite where) {
  require_common(x, {&indices, 1}, "take_along_axis", where);
  require_indices({&indices, 1}, "take_along_axis", where);
  const std::int64_t along = jit::axis_of(x, axis, "take_along_axis", where);
  Dims expected = indices.dims();
  if (indices.rank() == x.rank()) {
    expected = x.dims();
    expected[jit::axis_index(along)] = indices.dims()[jit::axis_index(along)];
  }
  if (indices.rank() != x.rank() || indices.dims() != expected) {
    const Node both[] = {x, indices};
    jit::refuse_op("take_along_axis", both,
                   fmt::format("they differ in more than axis {}; broadcast_to() makes other axes "
                               "alike",
                               along),
                   where);
  }
  const Graph graph = Inside::make<Graph>(jit::graph_of(x, "take_along_axis"));
  std::vector<Node> places;
  for (std::int64_t k = 0; k < x.rank(); ++k)
    places.push_back(k == along ? indices : graph.iota({DType::i64, indices.dims()}, k, where));
  return gather(x, places, where);
}

Node dynamic_slice(const Node& x, const std::vector<Operand>& starts, const Dims& sizes,
                   CallSite where) {
  const std::vector<Node> nodes = start_nodes(x, starts, "dynamic_slice", where);
  if (sizes.size() != x.dims().size()) {
    jit::refuse_op(
        "dynamic_slice", std::span(&x, 1),
        fmt::format("{} sizes for {} axes (expected one for each)", sizes.size(), x.rank()), where);
  }
  if (x.rank() == 0) return x;
  require_indices(nodes, "dynamic_slice", where);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] >= 0 && sizes[k] <= x.dims()[k]) continue;
    jit::refuse_op("dynamic_slice", std::span(&x, 1),
                   fmt::format("{} elements of axis {}, which has {}", sizes[k], k, x.dims()[k]),
                   where);
  }
  return gather_windows(x, nodes, first_axes(nodes.size()), Numbers(sizes.begin(), sizes.end()),
                        where);
}

Node dynamic_update_slice(const Node& x, const Node& update, const std::vector<Operand>& starts,
                          CallSite where) {
  std::vector<Node> nodes = start_nodes(x, starts, "dynamic_update_slice", where);
  require_common(x, {&update, 1}, "dynamic_update_slice", where);
  const bool fits = update.rank() == x.rank() &&
                    std::ranges::equal(update.dims(), x.dims(), std::ranges::less_equal());
  if (!fits) {
    const Node both[] = {x, update};
    jit::refuse_op("dynamic_update_slice", both,
                   "the update has as many axes, and none longer; reshape or slice it", where);
  }
  const Node typed = typed_updates(x, update, "dynamic_update_slice", where);
  if (x.rank() == 0) return typed;
  require_indices(nodes, "dynamic_update_slice", where);
  for (std::size_t k = 0; k < nodes.size(); ++k)
    nodes[k] = jit::nearest_places(nodes[k], x.dims()[k] - update.dims()[k], where);
  return scatter_windows(x, nodes, first_axes(nodes.size()), typed, jit::Op::arg2, where);
}

Node scatter(const Node& x, const std::vector<Node>& indices, const Node& updates, Scatter how,
             CallSite where) {
  require_common(x, indices, "scatter", where);
  require_common(x, {&updates, 1}, "scatter", where);
  require_indices(indices, "scatter", where);
  require_leading(x, indices.size(), "scatter", where);
  const Dims& batch = indices[0].dims();
  std::vector<std::int64_t> expected(batch.begin(), batch.end());
  std::vector<std::int64_t> window = expected;
  window.insert(window.end(), indices.size(), 1);
  for (std::size_t k = indices.size(); k < x.dims().size(); ++k) {
    expected.push_back(x.dims()[k]);
    window.push_back(x.dims()[k]);
  }
  if (updates.dims() != Dims(expected)) {
    jit::refuse_op("scatter", std::span(&updates, 1),
                   fmt::format("updates of this x at these indices are [{}]; broadcast_to() or "
                               "reshape() gives that",
                               fmt::join(expected, ",")),
                   where);
  }
  const jit::Op op = op_of(how, x, where);
  const Node typed = reshape(typed_updates(x, updates, "scatter", where), window, where);
  return scatter_windows(x, indices, first_axes(indices.size()), typed, op, where);
}

}  // namespace heddle
