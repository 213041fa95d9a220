// Operations that move elements: shapes, axes, ranges, parts.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "heddle/graph_ops.hpp"
#include "jit/graph/state.hpp"
#include "jit/loop/interval.hpp"
#include "jit/system/inside.hpp"

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

[[noreturn]] void refuse_layout(std::string_view what, const Node& x, std::string_view problem,
                                CallSite where) {
  jit::refuse_op(what, std::span(&x, 1), problem, where);
}

/// Where a range begins, how far it goes and how many elements it has: as Python cuts it.
struct CutRange {
  std::int64_t start, step, count;
};
CutRange cut_range(const Node& x, std::int64_t axis, const Range& range, CallSite where) {
  const std::int64_t extent = x.dims()[jit::axis_index(axis)];
  if (range.step == 0 || range.step == Range::open)
    refuse_layout("slice", x, fmt::format("the step of axis {} is {}", axis, range.step), where);
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

void require_parts(const std::vector<Node>& parts, std::string_view what, CallSite where) {
  if (parts.empty()) jit::refuse_op(what, {}, "there are no parts", where);
  static_cast<void>(jit::common_graph(parts, what, where));
}

/// Where row + diagonal >= column for the last two axes of `x`, or <=.
Node triangle(const Node& x, std::int64_t diagonal, bool lower, std::string_view what,
              CallSite where) {
  if (x.rank() < 2) refuse_layout(what, x, "it has less than 2 axes", where);
  const Dims square(std::vector<std::int64_t>(x.dims().end() - 2, x.dims().end()));
  const Graph graph = Inside::make<Graph>(jit::graph_of(x, what));
  const Node row = graph.iota({DType::i64, square}, 0, where);
  const Node column = graph.iota({DType::i64, square}, 1, where);
  // Beyond the corners all diagonals are alike.
  const std::int64_t inside = std::clamp(diagonal, -square[0], square[1]);
  const Node edge = Operand(row, where) + Operand(inside, where);
  const Node keeps = lower ? Operand(column, where) <= Operand(edge, where)
                           : Operand(edge, where) <= Operand(column, where);
  const Node kept = select(Operand(keeps, where), x, graph.constant(0, x.dtype(), where));
  return cast(Operand(kept, where), x.dtype());
}

}  // namespace

Node broadcast_in_dim(const Node& x, const Dims& dims, const Axes& axes, CallSite where) {
  static_cast<void>(jit::graph_of(x, "broadcast_in_dim"));
  Numbers places;
  const auto rank = static_cast<std::int64_t>(dims.size());
  for (const std::int64_t axis : axes) places.push_back(axis < 0 ? axis + rank : axis);
  return layout_node(x, NodeKind::broadcast, dims, {std::move(places)}, where);
}

Node broadcast_to(const Node& x, const Dims& dims, CallSite where) {
  static_cast<void>(jit::graph_of(x, "broadcast_to"));
  const Dims shapes[] = {x.dims(), dims};
  if (jit::broadcast_dims(shapes) != dims) {
    refuse_layout(
        "broadcast_to", x,
        fmt::format("it cannot become [{}]: from the last axis on, its extents are to be equal "
                    "or 1",
                    fmt::join(dims, ",")),
        where);
  }
  return jit::broadcast_as(x, dims, where);
}

Node reshape(const Node& x, const std::vector<std::int64_t>& dims, CallSite where) {
  static_cast<void>(jit::graph_of(x, "reshape"));
  const std::int64_t elements = *x.type().num_elements();
  Dims result(dims);
  const auto open = std::ranges::count(result, -1);
  if (open > 1) refuse_layout("reshape", x, "more than one extent is -1", where);
  if (open == 1) {
    const auto place = std::ranges::find(result, -1);
    *place = 1;
    const auto rest = ArrayType{x.dtype(), result}.num_elements();
    if (!rest || *rest == 0 || elements % *rest != 0) {
      refuse_layout("reshape", x,
                    fmt::format("no extent instead of -1 gives [{}] its {} elements",
                                fmt::join(dims, ","), elements),
                    where);
    }
    *place = elements / *rest;
  }
  if (result == x.dims()) return x;
  return layout_node(x, NodeKind::reshape, std::move(result), {}, where);
}

Node transpose(const Node& x, const Axes& order, CallSite where) {
  static_cast<void>(jit::graph_of(x, "transpose"));
  Numbers axes;
  for (const std::int64_t axis : order) axes.push_back(jit::axis_of(x, axis, "transpose", where));
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
  static_cast<void>(jit::graph_of(x, "squeeze"));
  const Numbers gone = jit::axes_of(x, axes, "squeeze", where);
  std::vector<std::int64_t> dims;
  for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
    const std::int64_t extent = x.dims()[jit::axis_index(axis)];
    const bool listed = std::ranges::binary_search(gone, axis);
    if (listed && extent != 1)
      refuse_layout("squeeze", x, fmt::format("axis {} has {} elements (expected 1)", axis, extent),
                    where);
    if (axes.empty() ? extent != 1 : !listed) dims.push_back(extent);
  }
  return reshape(x, dims, where);
}

Node expand_dims(const Node& x, const Axes& axes, CallSite where) {
  static_cast<void>(jit::graph_of(x, "expand_dims"));
  const auto rank = x.rank() + static_cast<std::int64_t>(axes.size());
  std::vector<std::int64_t> dims(jit::axis_index(rank), -1);
  for (const std::int64_t axis : axes) {
    const std::int64_t place = axis < 0 ? axis + rank : axis;
    if (place < 0 || place >= rank || dims[jit::axis_index(place)] == 1) {
      refuse_layout("expand_dims", x,
                    fmt::format("axis {} is listed twice, or none of the result's {}", axis, rank),
                    where);
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
  static_cast<void>(jit::graph_of(x, "slice"));
  if (ranges.size() > x.dims().size()) {
    refuse_layout("slice", x, fmt::format("{} ranges for {} axes", ranges.size(), x.rank()), where);
  }
  Dims dims = x.dims();
  Numbers start(dims.size(), 0);
  Numbers step(dims.size(), 1);
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    const CutRange found = cut_range(x, static_cast<std::int64_t>(k), ranges[k], where);
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
  static_cast<void>(jit::graph_of(x, "slice"));
  std::vector<Range> ranges(jit::axis_index(jit::axis_of(x, axis, "slice", where)) + 1);
  ranges.back() = range;
  return slice(x, ranges, where);
}

Node reverse(const Node& x, const Axes& axes, CallSite where) {
  static_cast<void>(jit::graph_of(x, "reverse"));
  const Numbers turned = jit::axes_of(x, axes, "reverse", where);
  std::vector<Range> ranges(x.dims().size());
  for (std::size_t k = 0; k < ranges.size(); ++k) {
    if (axes.empty() || std::ranges::binary_search(turned, static_cast<std::int64_t>(k)))
      ranges[k].step = -1;
  }
  return slice(x, ranges, where);
}

Node concatenate(const std::vector<Node>& parts, std::int64_t axis, CallSite where) {
  require_parts(parts, "concatenate", where);
  const DType type = jit::common_type(parts, "concatenate", where);
  GraphNode node;
  node.kind = NodeKind::concatenate;
  node.fields = {{jit::axis_of(parts[0], axis, "concatenate", where)}};
  for (const Node& part : parts) node.args.push_back(jit::id_of(cast(Operand(part, where), type)));
  return jit::make_node(jit::graph_of(parts[0], "concatenate"), std::move(node), where);
}

Node stack(const std::vector<Node>& parts, std::int64_t axis, CallSite where) {
  require_parts(parts, "stack", where);
  std::vector<Node> rows;
  for (const Node& part : parts) rows.push_back(expand_dims(part, {axis}, where));
  return concatenate(rows, axis, where);
}

std::vector<Node> split(const Node& x, std::int64_t count, std::int64_t axis, CallSite where) {
  static_cast<void>(jit::graph_of(x, "split"));
  const std::int64_t along = jit::axis_of(x, axis, "split", where);
  const std::int64_t extent = x.dims()[jit::axis_index(along)];
  if (count < 1 || extent % count != 0) {
    refuse_layout("split", x,
                  fmt::format("axis {} has {} elements, no multiple of {}", along, extent, count),
                  where);
  }
  const std::int64_t size = extent / count;
  std::vector<Node> parts;
  for (std::int64_t k = 0; k < count; ++k)
    parts.push_back(slice(x, along, {k * size, (k + 1) * size}, where));
  return parts;
}

Node pad(const Node& x, const Operand& value, const std::vector<Padding>& padding, CallSite where) {
  const auto& graph = jit::graph_of(x, "pad");
  if (padding.size() > x.dims().size())
    refuse_layout("pad", x, fmt::format("{} paddings for {} axes", padding.size(), x.rank()),
                  where);
  GraphNode node;
  node.kind = NodeKind::pad;
  node.fields.assign(3, Numbers(x.dims().size(), 0));
  std::vector<Range> kept(x.dims().size());  // of what was padded
  bool is_cut = false;
  for (std::size_t k = 0; k < padding.size(); ++k) {
    const Padding& one = padding[k];
    if (one.interior < 0)
      refuse_layout("pad", x, fmt::format("the interior padding of axis {} is {}", k, one.interior),
                    where);
    node.fields[0][k] = std::max<std::int64_t>(one.low, 0);
    node.fields[1][k] = std::max<std::int64_t>(one.high, 0);
    node.fields[2][k] = one.interior;
    const std::int64_t extent = x.dims()[k];
    const Int128 padded = Int128{extent} +
                          Int128{std::max<std::int64_t>(extent - 1, 0)} * one.interior +
                          node.fields[0][k] + node.fields[1][k];
    // What is negative of both.
    const Int128 gone = Int128{node.fields[0][k]} - one.low + node.fields[1][k] - one.high;
    if (gone > padded) {
      refuse_layout("pad", x,
                    fmt::format("{} elements are to go of axis {}, which has {}", jit::narrow(gone),
                                k, jit::narrow(padded)),
                    where);
    }
    if (one.low < 0) kept[k].start = -one.low;
    if (one.high < 0) kept[k].stop = one.high;
    is_cut = is_cut || one.low < 0 || one.high < 0;
  }
  const Node filler = jit::operand_node(value, graph, x.dtype(), "pad");
  if (filler.rank() != 0) refuse_layout("pad", filler, "the value is no scalar", where);
  node.args = {jit::id_of(x), jit::id_of(filler)};
  const Node padded = jit::make_node(graph, std::move(node), where);
  if (!is_cut) return padded;
  return slice(padded, kept, where);
}

Node tril(const Node& x, std::int64_t diagonal, CallSite where) {
  return triangle(x, diagonal, true, "tril", where);
}
Node triu(const Node& x, std::int64_t diagonal, CallSite where) {
  return triangle(x, diagonal, false, "triu", where);
}

}  // namespace heddle
