// Reductions, windows, running sums.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "heddle/graph_ops.hpp"
#include "jit/graph/called.hpp"
#include "jit/graph/state.hpp"

namespace heddle {
namespace {

using jit::GraphNode;
using jit::NodeKind;
using jit::Numbers;
using jit::Op;

Node converted(const Node& x, Reduce options, CallSite where) {
  return options.as ? cast(Operand(x, where), *options.as) : x;
}

Numbers reduced_axes(const Node& x, const Axes& axes, const jit::Called& call) {
  if (!axes.empty()) return jit::axes_of(x, axes, call);
  return jit::first_axes(x.dims().size());
}

/// `reduced` with axes of one element in place of the reduced axes.
Node keep_axes(const Node& reduced, const Dims& dims, const Numbers& axes, CallSite where) {
  std::vector<std::int64_t> kept(dims.begin(), dims.end());
  for (const std::int64_t axis : axes) kept[jit::axis_index(axis)] = 1;
  return reshape(reduced, kept, where);
}

Node reduce_node(Op op, std::string_view what, const Node& given, const Axes& axes, Reduce options,
                 CallSite where) {
  const jit::Called call(what, where, given);
  const Node x = converted(given, options, where);
  const Numbers gone = reduced_axes(x, axes, call);
  GraphNode node;
  node.kind = NodeKind::reduce;
  node.op = op;
  node.args = {jit::id_of(x)};
  node.fields = {gone};
  const Node reduced = jit::make_node(call.graph(), std::move(node), where);
  return options.keep ? keep_axes(reduced, x.dims(), gone, where) : reduced;
}

/// A double: the extents beside an empty axis may multiply to more than an integer holds.
double count_of(const Node& x, const Numbers& axes) {
  double count = 1;
  for (const std::int64_t axis : axes)
    count *= static_cast<double>(x.dims()[jit::axis_index(axis)]);
  return count;
}

/// The mean, in the type in which sums of `x` are computed.
Node wide_mean(const Node& x, const Axes& axes, Reduce options, const jit::Called& call) {
  const Numbers gone = reduced_axes(x, axes, call);
  const Node wide = cast(Operand(jit::as_floating(x, call.where()), call.where()),
                         compute_type(jit::as_floating(x, call.where()).dtype()));
  const Node total = sum(wide, gone, options, call.where());
  return Operand(total, call.where()) / Operand(count_of(x, gone), call.where());
}

/// The place of the first element along `axis` that equals the `op` of all elements; a NaN counts
/// as equal.
Node arg_extreme(Op op, std::string_view what, const Node& given, std::int64_t axis, Reduce options,
                 CallSite where) {
  const jit::Called call(what, where, given);
  const Node x = converted(given, options, where);
  options.as.reset();
  const std::int64_t along = jit::axis_of(x, axis, call);
  const Node extreme = reduce_node(op, what, x, {along}, {.keep = true}, where);
  Node found = Operand(x, where) == Operand(extreme, where);
  if (is_floating(x.dtype())) found = Operand(found, where) || Operand(x != x, where);
  const Node place = jit::graph_with(x).iota({DType::i64, x.dims()}, along, where);
  const Node first = select(Operand(found, where), place, x.dims()[jit::axis_index(along)]);
  return minimum(first, {along}, options, where);
}

/// The largest element over `axes` (kept), as the subtrahend of a difference. 0 replaces an
/// infinite maximum, because inf - inf is NaN, and the maximum of no elements.
Node finite_maximum(const Node& x, const Numbers& axes, CallSite where) {
  if (count_of(x, axes) == 0) return jit::graph_with(x).constant(0, x.dtype(), where);
  const Node largest = maximum(x, axes, {.keep = true}, where);
  const Node finite = abs(Operand(largest, where)) < Operand(HUGE_VAL, where);
  return select(Operand(finite, where), largest, 0);
}

Node windowed(Op op, std::string_view what, const Node& x, const Window& window, CallSite where) {
  const jit::Called call(what, where, x);
  const std::size_t rank = x.dims().size();
  const std::size_t axes = window.size.size();
  if (axes > rank || (!window.step.empty() && window.step.size() != axes) ||
      (!window.dilation.empty() && window.dilation.size() != axes)) {
    call.refuse(
        fmt::format("a window of {} axes, {} steps and {} dilations over {} axes; there "
                    "are no more axes than the node has, and as many steps and "
                    "dilations, or none",
                    axes, window.step.size(), window.dilation.size(), rank));
  }
  GraphNode node;
  node.kind = NodeKind::window;
  node.op = op;
  node.args = {jit::id_of(x)};
  node.fields.assign(3, Numbers(rank, 1));
  for (std::size_t k = 0; k < axes; ++k) {
    const std::size_t axis = rank - axes + k;
    node.fields[0][axis] = window.size[k];
    node.fields[1][axis] = window.step.empty() ? window.size[k] : window.step[k];
    if (!window.dilation.empty()) node.fields[2][axis] = window.dilation[k];
  }
  return jit::make_node(call.graph(), std::move(node), where);
}

Node cumulate_node(Op op, std::string_view what, const Node& x, std::int64_t axis, Cumulate options,
                   CallSite where) {
  const jit::Called call(what, where, x);
  GraphNode node;
  node.kind = NodeKind::cumulate;
  node.op = op;
  node.args = {jit::id_of(x)};
  node.fields = {{jit::axis_of(x, axis, call)}, {options.reverse ? 1 : 0}};
  return jit::make_node(call.graph(), std::move(node), where);
}

}  // namespace

Node sum(const Node& x, const Axes& axes, Reduce options, CallSite where) {
  return reduce_node(Op::add, "sum", x, axes, options, where);
}
Node product(const Node& x, const Axes& axes, Reduce options, CallSite where) {
  return reduce_node(Op::mul, "product", x, axes, options, where);
}
Node maximum(const Node& x, const Axes& axes, Reduce options, CallSite where) {
  return reduce_node(Op::max, "maximum", x, axes, options, where);
}
Node minimum(const Node& x, const Axes& axes, Reduce options, CallSite where) {
  return reduce_node(Op::min, "minimum", x, axes, options, where);
}
Node all(const Node& x, const Axes& axes, Reduce options, CallSite where) {
  return reduce_node(Op::and_, "all", x, axes, options, where);
}
Node any(const Node& x, const Axes& axes, Reduce options, CallSite where) {
  return reduce_node(Op::or_, "any", x, axes, options, where);
}

Node mean(const Node& x, const Axes& axes, Reduce options, CallSite where) {
  const jit::Called call("mean", where, x);
  const Node given = converted(x, options, where);
  return wide_mean(given, axes, {.keep = options.keep}, call);
}

Node variance(const Node& given, const Axes& axes, Reduce options, CallSite where) {
  const jit::Called call("variance", where, given);
  const Node x = converted(given, options, where);
  options.as.reset();
  const Node centre = wide_mean(x, axes, {.keep = true}, call);
  const Node distance = Operand(x, where) - Operand(centre, where);
  return wide_mean(Operand(distance, where) * Operand(distance, where), axes, options, call);
}

Node logsumexp(const Node& given, const Axes& axes, Reduce options, CallSite where) {
  const jit::Called call("logsumexp", where, given);
  const Node x = converted(given, options, where);
  const Numbers gone = reduced_axes(x, axes, call);
  const Node real = jit::as_floating(x, where);
  const Node shift = finite_maximum(real, gone, where);
  const Node terms = exp(Operand(Operand(real, where) - Operand(shift, where), where));
  const Node total = log(Operand(sum(terms, gone, {.keep = true}, where), where));
  const Node result = Operand(total, where) + Operand(shift, where);
  if (options.keep) return result;
  std::vector<std::int64_t> dims;
  for (std::int64_t axis = 0; axis < x.rank(); ++axis) {
    if (!std::ranges::binary_search(gone, axis)) dims.push_back(x.dims()[jit::axis_index(axis)]);
  }
  return reshape(result, dims, where);
}

Node argmax(const Node& x, std::int64_t axis, Reduce options, CallSite where) {
  return arg_extreme(Op::max, "argmax", x, axis, options, where);
}
Node argmin(const Node& x, std::int64_t axis, Reduce options, CallSite where) {
  return arg_extreme(Op::min, "argmin", x, axis, options, where);
}

Node window_sum(const Node& x, const Window& window, CallSite where) {
  return windowed(Op::add, "window_sum", x, window, where);
}
Node window_maximum(const Node& x, const Window& window, CallSite where) {
  return windowed(Op::max, "window_maximum", x, window, where);
}
Node window_minimum(const Node& x, const Window& window, CallSite where) {
  return windowed(Op::min, "window_minimum", x, window, where);
}
Node cumsum(const Node& x, std::int64_t axis, Cumulate options, CallSite where) {
  return cumulate_node(Op::add, "cumsum", x, axis, options, where);
}
Node cumprod(const Node& x, std::int64_t axis, Cumulate options, CallSite where) {
  return cumulate_node(Op::mul, "cumprod", x, axis, options, where);
}
Node cummax(const Node& x, std::int64_t axis, Cumulate options, CallSite where) {
  return cumulate_node(Op::max, "cummax", x, axis, options, where);
}

}  // namespace heddle
