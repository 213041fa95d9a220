// Operations at computed places: gather, scatter, windows.
#include <fmt/format.h>

#include <algorithm>

#include "heddle/graph_ops.hpp"
#include "jit/graph/called.hpp"
#include "jit/graph/state.hpp"

namespace heddle {
namespace {

using jit::GraphNode;
using jit::NodeKind;
using jit::Numbers;

/// Requires integer index arrays of one shape.
void require_indices(std::span<const Node> indices, const jit::Called& call) {
  if (indices.empty()) call.refuse("there are no indices; it takes one array at least");
  for (const Node& each : indices) {
    if (!is_integer(each.dtype())) {
      call.refuse("indices are integers; convert with cast(x, i64)");
    }
    if (each.dims() != indices[0].dims()) {
      call.refuse("the indices have one shape; broadcast_to() gives it");
    }
  }
}

Node gather_windows(const Node& x, const std::vector<Node>& indices, Numbers axes, Numbers sizes,
                    CallSite where) {
  if (indices[0].type().num_elements() == 0) {  // without indices the result is empty
    std::vector<std::int64_t> dims(indices[0].dims().begin(), indices[0].dims().end());
    dims.insert(dims.end(), sizes.begin(), sizes.end());
    const Graph graph = jit::graph_with(x);
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

/// Removes the axes of one element, `first` + each of `axes`.
Node without_axes(const Node& x, std::size_t first, const Numbers& axes, CallSite where) {
  Axes gone;
  for (const std::int64_t axis : axes) gone.push_back(static_cast<std::int64_t>(first) + axis);
  return squeeze(x, gone, where);
}

/// Converts starts to nodes: scalars, one for each axis of x.
std::vector<Node> start_nodes(const Node& x, const std::vector<Operand>& starts,
                              const jit::Called& call) {
  std::vector<Node> nodes;
  for (const Operand& each : starts) {
    nodes.push_back(each.number() ? jit::operand_node(each, DType::i64, call) : each.node());
    if (nodes.back().rank() == 0) continue;
    call.refuse("starts are scalars, one for each axis; reshape() makes one of an element");
  }
  if (std::ssize(nodes) != x.rank()) {
    call.refuse(
        fmt::format("{} starts for {} axes (expected one for each)", nodes.size(), x.rank()));
  }
  return nodes;
}

Node scatter_windows(const Node& x, const std::vector<Node>& indices, Numbers axes,
                     const Node& updates, jit::Op op, CallSite where) {
  if (updates.type().num_elements() == 0 || x.type().num_elements() == 0) return x;
  GraphNode node;
  node.kind = NodeKind::scatter;
  node.op = op;
  node.type = {x.dtype(), {}};
  node.args = {jit::id_of(x), jit::id_of(updates)};
  for (const Node& each : indices) node.args.push_back(jit::id_of(each));
  node.fields = {std::move(axes)};
  return jit::make_node(jit::graph_of(x, "scatter"), std::move(node), where);
}

jit::Op op_of(Scatter how, const jit::Called& call) {
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
  call.refuse(fmt::format("how is {} (expected a value of Scatter)", static_cast<int>(how)));
}

void require_leading(const Node& x, std::size_t count, const jit::Called& call) {
  if (static_cast<std::int64_t>(count) <= x.rank()) return;
  call.refuse(
      fmt::format("{} arrays of indices for {} axes (expected at most as many)", count, x.rank()));
}

}  // namespace

Node gather(const Node& x, const std::vector<Node>& indices, CallSite where) {
  const jit::Called call("gather", where, x, indices);
  require_indices(indices, call);
  require_leading(x, indices.size(), call);
  const Numbers axes = jit::first_axes(indices.size());
  Numbers sizes(x.dims().begin(), x.dims().end());
  std::fill_n(sizes.begin(), indices.size(), 1);
  return without_axes(gather_windows(x, indices, axes, std::move(sizes), where),
                      indices[0].dims().size(), axes, where);
}

Node take(const Node& x, const Node& indices, std::int64_t axis, CallSite where) {
  const jit::Called call("take", where, x, indices);
  require_indices({&indices, 1}, call);
  const std::int64_t along = jit::axis_of(x, axis, call);
  Numbers sizes(x.dims().begin(), x.dims().end());
  sizes[jit::axis_index(along)] = 1;
  const Node rows = without_axes(gather_windows(x, {indices}, {along}, std::move(sizes), where),
                                 indices.dims().size(), {along}, where);
  // The axes of the indices come first; moves them to the position of `axis`.
  Axes order;
  const std::int64_t batch = indices.rank();
  for (std::int64_t k = 0; k < along; ++k) order.push_back(batch + k);
  for (std::int64_t k = 0; k < batch; ++k) order.push_back(k);
  for (std::int64_t k = along; k + 1 < x.rank(); ++k) order.push_back(batch + k);
  return transpose(rows, order, where);
}

Node take_along_axis(const Node& x, const Node& indices, std::int64_t axis, CallSite where) {
  const jit::Called call("take_along_axis", where, x, indices);
  require_indices({&indices, 1}, call);
  const std::int64_t along = jit::axis_of(x, axis, call);
  Dims expected = indices.dims();
  if (indices.rank() == x.rank()) {
    expected = x.dims();
    expected[jit::axis_index(along)] = indices.dims()[jit::axis_index(along)];
  }
  if (indices.rank() != x.rank() || indices.dims() != expected) {
    call.refuse(
        fmt::format("they differ in more than axis {}; broadcast_to() makes other axes "
                    "alike",
                    along));
  }
  const Graph graph = jit::graph_with(x);
  std::vector<Node> places;
  for (std::int64_t k = 0; k < x.rank(); ++k)
    places.push_back(k == along ? indices : graph.iota({DType::i64, indices.dims()}, k, where));
  return gather(x, places, where);
}

Node dynamic_slice(const Node& x, const std::vector<Operand>& starts, const Dims& sizes,
                   CallSite where) {
  const jit::Called call("dynamic_slice", where, x, starts);
  const std::vector<Node> nodes = start_nodes(x, starts, call);
  if (sizes.size() != x.dims().size()) {
    call.refuse(
        fmt::format("{} sizes for {} axes (expected one for each)", sizes.size(), x.rank()));
  }
  if (x.rank() == 0) return x;
  require_indices(nodes, call);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    if (sizes[k] >= 0 && sizes[k] <= x.dims()[k]) continue;
    call.refuse(fmt::format("{} elements of axis {}, which has {}", sizes[k], k, x.dims()[k]));
  }
  return gather_windows(x, nodes, jit::first_axes(nodes.size()),
                        Numbers(sizes.begin(), sizes.end()), where);
}

Node dynamic_update_slice(const Node& x, const Node& update, const std::vector<Operand>& starts,
                          CallSite where) {
  const jit::Called call("dynamic_update_slice", where, x, update, starts);
  std::vector<Node> nodes = start_nodes(x, starts, call);
  const bool fits = update.rank() == x.rank() &&
                    std::ranges::equal(update.dims(), x.dims(), std::ranges::less_equal());
  if (!fits) {
    call.refuse("the update has as many axes, and none longer; reshape or slice it");
  }
  const Node typed = jit::typed_as(x, update, call);
  if (x.rank() == 0) return typed;
  require_indices(nodes, call);
  for (std::size_t k = 0; k < nodes.size(); ++k)
    nodes[k] = jit::nearest_places(nodes[k], x.dims()[k] - update.dims()[k], where);
  return scatter_windows(x, nodes, jit::first_axes(nodes.size()), typed, jit::Op::arg2, where);
}

Node scatter(const Node& x, const std::vector<Node>& indices, const Node& updates, Scatter how,
             CallSite where) {
  const jit::Called call("scatter", where, x, indices, updates);
  require_indices(indices, call);
  require_leading(x, indices.size(), call);
  const Dims& batch = indices[0].dims();
  std::vector<std::int64_t> expected(batch.begin(), batch.end());
  std::vector<std::int64_t> window = expected;
  window.insert(window.end(), indices.size(), 1);
  for (std::size_t k = indices.size(); k < x.dims().size(); ++k) {
    expected.push_back(x.dims()[k]);
    window.push_back(x.dims()[k]);
  }
  if (updates.dims() != Dims(expected)) {
    call.refuse(
        fmt::format("updates of this x at these indices are [{}]; broadcast_to() or "
                    "reshape() gives that",
                    fmt::join(expected, ",")));
  }
  const jit::Op op = op_of(how, call);
  const Node typed = reshape(jit::typed_as(x, updates, call), window, where);
  return scatter_windows(x, indices, jit::first_axes(indices.size()), typed, op, where);
}

}  // namespace heddle
