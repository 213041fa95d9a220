// See types_index.hpp.
#include "jit/graph/types_index.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "jit/graph/type_checks.hpp"

namespace heddle::jit {
namespace {

/// The common shape of the index arrays of gather and scatter.
Dims shape_of_indices(const Numbers& axes, std::span<const ArrayType> indices, const ArrayType& x) {
  require_axes(axes, x);
  if (!std::ranges::is_sorted(axes)) refuse_node("its axes are not in rising order");
  if (axes.empty() || indices.size() != axes.size()) {
    refuse_node(fmt::format("it has {} arrays of indices for {} axes (expected one for each)",
                            indices.size(), axes.size()));
  }
  for (const ArrayType& each : indices) {
    if (!is_integer(each.dtype)) {
      refuse_node(
          fmt::format("its indices are {} (expected integers; cast them)", each.to_string()));
    }
    if (each.dims != indices[0].dims) {
      refuse_node(fmt::format("its indices have shapes {} and {} (expected one)",
                              indices[0].to_string(), each.to_string()));
    }
  }
  return indices[0].dims;
}

void require_window(const Numbers& axes, std::span<const std::int64_t> sizes, const ArrayType& x) {
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    const bool placed = std::ranges::binary_search(axes, static_cast<std::int64_t>(k));
    if (placed ? sizes[k] >= 0 && sizes[k] <= x.dims[k] : sizes[k] == x.dims[k]) continue;
    if (placed && x.dims[k] == 0 && sizes[k] == 1)
      refuse_node(fmt::format("axis {} of {} has no element to choose", k, x.to_string()));
    refuse_node(fmt::format("axis {} of {} has {} elements of it (expected {}{})", k, x.to_string(),
                            sizes[k], placed ? "0 to " : "all ", x.dims[k]));
  }
}

}  // namespace

ArrayType gather_type(const GraphNode& node, std::span<const ArrayType> args) {
  if (args.empty()) refuse_node("it has no operands");
  const ArrayType& x = args[0];
  ArrayType type{x.dtype, shape_of_indices(node.fields[0], args.subspan(1), x)};
  require_count(node.fields[1], x.dims.size(), "sizes");
  require_window(node.fields[0], node.fields[1], x);
  for (const std::int64_t size : node.fields[1]) type.dims.push_back(size);
  return type;
}

ArrayType scatter_type(const GraphNode& node, std::span<const ArrayType> args) {
  if (args.size() < 2) refuse_node("it has no updates");
  if (node.op != Op::arg2) require_reduction(node.op);
  const ArrayType& x = args[0];
  const ArrayType& updates = args[1];
  require_alike(x, updates);
  const Dims b = shape_of_indices(node.fields[0], args.subspan(2), x);
  const bool fits = updates.dims.size() == b.size() + x.dims.size() &&
                    std::equal(b.begin(), b.end(), updates.dims.begin());
  if (!fits) {
    refuse_node(
        fmt::format("its updates are {} (expected {} axes, of which the first are those of "
                    "its indices, [{}])",
                    updates.to_string(), b.size() + x.dims.size(), fmt::join(b, ",")));
  }
  const std::vector<std::int64_t> sizes(
      updates.dims.begin() + static_cast<std::ptrdiff_t>(b.size()), updates.dims.end());
  require_window(node.fields[0], sizes, x);
  return x;
}

ArrayType order_type(const GraphNode& node, std::span<const ArrayType> args) {
  if (args.empty()) refuse_node("it has no keys");
  require_axis(node.fields[0][0], args[0]);
  for (const ArrayType& each : args) {
    if (is_floating(each.dtype) || info(each.dtype).is_signed) {
      refuse_node(
          fmt::format("its key is {} (expected unsigned integers or bool)", each.to_string()));
    }
    if (each.dims != args[0].dims) {
      refuse_node(fmt::format("its keys have shapes {} and {} (expected one)", args[0].to_string(),
                              each.to_string()));
    }
  }
  const bool small =
      args[0].dims[axis_index(node.fields[0][0])] <= std::numeric_limits<std::int32_t>::max();
  return {small ? DType::i32 : DType::i64, args[0].dims};
}

}  // namespace heddle::jit
