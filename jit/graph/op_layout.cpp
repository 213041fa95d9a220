// Operations that move elements: shapes, axes, ranges, parts.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "heddle/graph_ops.hpp"
#include "jit/graph/called.hpp"
#include "jit/graph/state.hpp"
#include "jit/loop/interval.hpp"

namespace heddle {
namespace {

using jit::GraphNode;
using jit::Int128;
using jit::NodeKind;
using jit::Numbers;

Node layout_node(const Node& x, NodeKind kind, Dims dims, std::vector<Numbers> fields,
                 CallSite where) {
  GraphNode node;
  node.kind = kind;
  node.type = {x.dtype(), std::move(dims)};
  node.args = {jit::id_of(x)};
  node.fields = std::move(fields);
  return jit::make_node(jit::graph_of(x, jit::kind_info(kind).name), std::move(node), where);
}

/// The start, step and number of elements of a range, with Python's slicing rules.
struct CutRange {
  std::int64_t start, step, count;
};
CutRange cut_range(const Node& x, std::int64_t axis, const Range& range, const jit::Called& call) {
  const std::int64_t extent = x.dims()[jit::axis_index(axis)];
  if (range.step == 0 || range.step == Range::open)
    call.refuse(
        fmt::format("the step of axis {} is {} (expected any other number)", axis, range.step));
  const bool up = range.step > 0;
  const std::int64_t first = up ? 0 : -1;
  const std::int64_t last = up ? extent : extent - 1;
  const auto place = [&](std::int64_t given, std::int64_t otherwise) {
    if (given == Range::open) return otherwise;
    return std::clamp(given < 0 ? given + extent : given, first, last);
  };
  const std::int64_t start = place(range.start, up ? first : last);
  const std::int64_t stop = place(range.stop, up ? last : first);
  const std::int64_t span = up ? stop - start : start - stop;
  const std::int64_t stride = up ? range.step : -range.step;
  return {start, range.step, span <= 0 ? 0 : (span - 1) / stride + 1};
}

void require_parts(const std::vector<Node>& parts, const jit::Called& call) {
  if (parts.empty()) call.refuse("there are no parts; it takes one at least");
}

/// Keeps the elements with row + diagonal >= column (lower) or <= column, for the last two axes of
/// `x`.
Node triangle(const Node& x, std::int64_t diagonal, bool lower, const jit::Called& call) {
  if (x.rank() < 2) call.refuse("it takes 2 axes at least, rows and columns; reshape() adds some");
  const Dims square(std::vector<std::int64_t>(x.dims().end() - 2, x.dims().end()));
  const Graph graph = jit::graph_with(x);
  const Node row = graph.iota({DType::i64, square}, 0, call.where());
  const Node column = graph.iota({DType::i64, square}, 1, call.where());
  // All diagonals beyond the corners give the same result.
  const std::int64_t inside = std::clamp(diagonal, -square[0], square[1]);
  const Node edge = Operand(row, call.where()) + Operand(inside, call.where());
  const Node keeps = lower ? Operand(column, call.where()) <= Operand(edge, call.where())
                           : Operand(edge, call.where()) <= Operand(column, call.where());
  const Node kept =
      select(Operand(keeps, call.where()), x, graph.constant(0, x.dtype(), call.where()));
  return cast(Operand(kept, call.where()), x.dtype());
}

}  // namespace

Node broadcast_in_dim(const Node& x, const Dims& dims, const Axes& axes, CallSite where) {
  const jit::Called call("broadcast_in_dim", where, x);
  Numbers places;
  const ArrayType result{x.dtype(), dims};
  for (const std::int64_t axis : axes) places.push_back(jit::axis_of(result, axis, call));
  return layout_node(x, NodeKind::broadcast, dims, {std::move(places)}, where);
}

Node broadcast_to(const Node& x, const Dims& dims, CallSite where) {
  const jit::Called call("broadcast_to", where, x);
  const Dims shapes[] = {x.dims(), dims};
  if (jit::broadcast_dims(shapes) != dims) {
    call.refuse(
        fmt::format("it cannot become [{}]: from the last axis on, its extents are to be equal "
                    "or 1",
                    fmt::join(dims, ",")));
  }
  return jit::broadcast_as(x, dims, where);
}

Node reshape(const Node& x, const std::vector<std::int64_t>& dims, CallSite where) {
  const jit::Called call("reshape", where, x);
  const std::int64_t elements = *x.type().num_elements();
  Dims result(dims);
  const auto open = std::ranges::count(result, -1);
  if (open > 1) call.refuse("more than one extent is -1");
  if (open == 1) {
    const auto place = std::ranges::find(result, -1);
    *place = 1;
    const auto rest = ArrayType{x.dtype(), result}.num_elements();
    if (!rest || *rest == 0 || elements % *rest != 0) {
      call.refuse(fmt::format("no extent instead of -1 gives [{}] its {} elements",
                              fmt::join(dims, ","), elements));
    }
    *place = elements / *rest;
  }
  if (result == x.dims()) return x;
  return layout_node(x, NodeKind::reshape, std::move(result), {}, where);
}

Node transpose(const Node& x, const Axes& order, CallSite where) {
  const jit::Called call("transpose", where, x);
  Numbers axes;
  for (const std::int64_t axis : order) axes.push_back(jit::axis_of(x, axis, call));
  if (order.empty()) {
    axes.resize(jit::axis_index(x.rank()));
    std::iota(axes.rbegin(), axes.rend(), 0);
  }
  if (std::ranges::is_sorted(axes) && axes.size() == x.dims().size() &&
      std::ranges::adjacent_find(axes) == axes.end())
    return x;
  return layout_node(x, NodeKind::transpose, x.dims(), {std::move(axes)}, where);
}

Node squeeze(const Node& x, const Axes& axes, CallSite where) {
  const jit::Called call("squeeze", where, x);
  const Numbers gone = jit::axes_of(x, axes, call);
  std::vector<std::int64_t> dims;
  for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t extent = x.dims()[jit::axis_index(axis)];
    const bool listed = std::ranges::binary_search(gone, axis);
    if (listed && extent != 1)
      call.refuse(fmt::format("axis {} has {} elements (expected 1)", axis, extent));
    if (axes.empty() ? extent != 1 : !listed) dims.push_back(extent);
  }
  return reshape(x, dims, where);
}

Node expand_dims(const Node& x, const Axes& axes, CallSite where) {
  const jit::Called call("expand_dims", where, x);
  const auto rank = x.rank() + static_cast<std::int64_t>(axes.size());
  std::vector<std::int64_t> dims(jit::axis_index(rank), -1);
  for (const std::int64_t axis : axes) {
    const std::int64_t place = axis < 0 ? axis + rank : axis;
    if (place < 0 || place >= rank || dims[jit::axis_index(place)] == 1) {
      call.refuse(fmt::format("axis {} is listed twice, or none of the result's {}", axis, rank));
    }
    dims[jit::axis_index(place)] = 1;
  }
  auto next = x.dims().begin();
  for (std::int64_t& extent : dims) {
    if (extent == -1) extent = *next++;
  }
  return reshape(x, dims, where);
}

Node slice(const Node& x, const std::vector<Range>& ranges, CallSite where) {
  const jit::Called call("slice", where, x);
  if (ranges.size() > x.dims().size()) {
    call.refuse(
        fmt::format("{} ranges for {} axes (expected at most as many)", ranges.size(), x.rank()));
  }
  Dims dims = x.dims();
  Numbers start(dims.size(), 0);
  Numbers step(dims.size(), 1);
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    const CutRange found = cut_range(x, static_cast<std::int64_t>(k), ranges[k], call);
    start[k] = found.start;
    step[k] = found.step;
    dims[k] = found.count;
  }
  const bool whole = dims == x.dims() && std::ranges::count(step, 1) == std::ssize(step);
  if (whole) return x;
  return layout_node(x, NodeKind::slice, std::move(dims), {std::move(start), std::move(step)},
                     where);
}

Node slice(const Node& x, std::int64_t axis, Range range, CallSite where) {
  const jit::Called call("slice", where, x);
  std::vector<Range> ranges(jit::axis_index(jit::axis_of(x, axis, call)) + 1);
  ranges.back() = range;
  return slice(x, ranges, where);
}

Node take(const Node& x, std::int64_t index, std::int64_t axis, CallSite where) {
  const jit::Called call("take", where, x);
  const std::int64_t along = jit::axis_of(x, axis, call);
  const std::int64_t extent = x.dims()[jit::axis_index(along)];
  if (index < -extent || index >= extent)
    call.refuse(fmt::format("axis {} has {} elements, and none at {}", along, extent, index));
  const std::int64_t from = index < 0 ? index + extent : index;
  return squeeze(slice(x, along, {from, from + 1}, where), {along}, where);
}

Node Node::part(const PartIndex& index) const { return take(*this, index.index, 0, index.where); }

Node reverse(const Node& x, const Axes& axes, CallSite where) {
  const jit::Called call("reverse", where, x);
  const Numbers turned = jit::axes_of(x, axes, call);
  std::vector<Range> ranges(x.dims().size());
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    if (axes.empty() || std::ranges::binary_search(turned, static_cast<std::int64_t>(k)))
      ranges[k].step = -1;
  }
  return slice(x, ranges, where);
}

Node concatenate(const std::vector<Node>& parts, std::int64_t axis, CallSite where) {
  const jit::Called call("concatenate", where, parts);
  require_parts(parts, call);
  const DType type = jit::common_type(parts, call);
  GraphNode node;
  node.kind = NodeKind::concatenate;
  node.fields = {{jit::axis_of(parts[0], axis, call)}};
  for (const Node& part : parts) node.args.push_back(jit::id_of(cast(Operand(part, where), type)));
  return jit::make_node(jit::graph_of(parts[0], "concatenate"), std::move(node), where);
}

Node stack(const std::vector<Node>& parts, std::int64_t axis, CallSite where) {
  const jit::Called call("stack", where, parts);
  require_parts(parts, call);
  for (const Node& part : parts) {
    if (part.dims() == parts[0].dims()) continue;
    call.refuse(fmt::format("parts have one shape, and are {} and {}; broadcast_to() gives it",
                            parts[0].type().to_string(), part.type().to_string()));
  }
  std::vector<Node> rows;
  for (const Node& part : parts) rows.push_back(expand_dims(part, {axis}, where));
  return concatenate(rows, axis, where);
}

std::vector<Node> split(const Node& x, std::int64_t count, std::int64_t axis, CallSite where) {
  const jit::Called call("split", where, x);
  const std::int64_t along = jit::axis_of(x, axis, call);
  const std::int64_t extent = x.dims()[jit::axis_index(along)];
  if (count < 1 || extent % count != 0) {
    call.refuse(fmt::format("axis {} has {} elements, no multiple of {}", along, extent, count));
  }
  const std::int64_t size = extent / count;
  std::vector<Node> parts;
  for (std::int64_t k = 0; k < count; ++k)
    parts.push_back(slice(x, along, {k * size, (k + 1) * size}, where));
  return parts;
}

Node pad(const Node& x, const Operand& value, const std::vector<Padding>& padding, CallSite where) {
  const jit::Called call("pad", where, x, value);
  if (padding.size() > x.dims().size())
    call.refuse(fmt::format("{} paddings for {} axes (expected at most as many)", padding.size(),
                            x.rank()));
  GraphNode node;
  node.kind = NodeKind::pad;
  node.fields.assign(3, Numbers(x.dims().size(), 0));
  std::vector<Range> kept(x.dims().size());  // the ranges to cut from the padded array
  bool is_cut = false;
  for (std::size_t k = 0; k < padding.size(); ++k) {
    const Padding& one = padding[k];
    if (one.interior < 0)
      call.refuse(fmt::format("the interior padding of axis {} is {} (expected 0 or more)", k,
                              one.interior));
    node.fields[0][k] = std::max<std::int64_t>(one.low, 0);
    node.fields[1][k] = std::max<std::int64_t>(one.high, 0);
    node.fields[2][k] = one.interior;
    const std::int64_t extent = x.dims()[k];
    const Int128 padded = Int128{extent} +
                          Int128{std::max<std::int64_t>(extent - 1, 0)} * one.interior +
                          node.fields[0][k] + node.fields[1][k];
    // The number of elements that negative padding removes.
    const Int128 gone = Int128{node.fields[0][k]} - one.low + node.fields[1][k] - one.high;
    if (gone > padded) {
      call.refuse(fmt::format("{} elements are to go of axis {}, which has {}", jit::narrow(gone),
                              k, jit::narrow(padded)));
    }
    if (one.low < 0) kept[k].start = -one.low;
    if (one.high < 0) kept[k].stop = one.high;
    is_cut = is_cut || one.low < 0 || one.high < 0;
  }
  const Node filler = value.number() ? jit::operand_node(value, x.dtype(), call)
                                     : jit::typed_as(x, value.node(), call);
  if (filler.rank() != 0) call.refuse("the value is no scalar; reshape() makes one of an element");
  node.args = {jit::id_of(x), jit::id_of(filler)};
  const Node padded = jit::make_node(call.graph(), std::move(node), where);
  if (!is_cut) return padded;
  return slice(padded, kept, where);
}

Node tril(const Node& x, std::int64_t diagonal, CallSite where) {
  const jit::Called call("tril", where, x);
  return triangle(x, diagonal, true, call);
}
Node triu(const Node& x, std::int64_t diagonal, CallSite where) {
  const jit::Called call("triu", where, x);
  return triangle(x, diagonal, false, call);
}

}  // namespace heddle
