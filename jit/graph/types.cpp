// The result type of each kind of node.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>

#include "heddle/status.hpp"
#include "jit/graph/nodes.hpp"
#include "jit/graph/type_checks.hpp"
#include "jit/graph/types_index.hpp"
#include "jit/loop/interval.hpp"
#include "jit/value/element.hpp"

namespace heddle::jit {

void refuse_node(std::string text) { throw Error(ErrorCode::invalid_argument, std::move(text)); }

void require_count(const Numbers& field, std::size_t count, std::string_view what) {
  if (field.size() == count) return;
  refuse_node(
      fmt::format("{} has {} numbers (expected {}, one for each axis)", what, field.size(), count));
}

void require_axis(std::int64_t axis, const ArrayType& type) {
  if (axis >= 0 && axis < rank_of(type)) return;
  if (rank_of(type) == 0)
    refuse_node(fmt::format("axis {} of {}, a scalar, which has none", axis, type.to_string()));
  refuse_node(fmt::format("axis {} is none of {} (expected 0 to {})", axis, type.to_string(),
                          rank_of(type) - 1));
}

void require_axes(const Numbers& axes, const ArrayType& type) {
  for (std::size_t k = 0; k < axes.size(); ++k) {
    require_axis(axes[k], type);
    if (std::ranges::find(axes.begin(), axes.begin() + static_cast<std::ptrdiff_t>(k), axes[k]) !=
        axes.begin() + static_cast<std::ptrdiff_t>(k))
      refuse_node(fmt::format("axis {} is listed twice; list each once", axes[k]));
  }
}

void require_alike(const ArrayType& given, const ArrayType& arg) {
  if (given.dtype == arg.dtype) return;
  refuse_node(fmt::format("its type is {}, its operand's {}; cast one", name(given.dtype),
                          name(arg.dtype)));
}

void require_reduction(Op op) {
  constexpr std::array ops{Op::add, Op::mul, Op::max, Op::min, Op::and_, Op::or_};
  if (std::ranges::find(ops, op) == ops.end())
    refuse_node(fmt::format("'{}' is no reduction", op_info(op).name));
}

namespace {

std::string show_numbers(const Numbers& numbers) {
  return fmt::format("[{}]", fmt::join(numbers, ","));
}

std::int64_t narrow_extent(Int128 extent) {
  if (extent < 0 || extent > INT64_MAX) refuse_node("an extent of its result passes 2^63 - 1");
  return static_cast<std::int64_t>(extent);
}

ArrayType element_type(const GraphNode& node, std::span<const ArrayType> args) {
  std::vector<DType> types;
  for (const ArrayType& arg : args) {
    types.push_back(arg.dtype);
    if (arg.dims != args[0].dims)
      refuse_node(fmt::format("shapes {} and {} differ", args[0].to_string(), arg.to_string()));
  }
  const auto typing = type_op(node.op, types);
  if (!typing) {
    const bool takes_bits = node.op == Op::uniform || op_info(node.op).op_class == OpClass::bits;
    refuse_node(takes_bits ? "it takes integers; convert with cast(x, u64)"
                           : "they have no common type; convert one with cast(x, dtype)");
  }
  return {typing->result, args[0].dims};
}

ArrayType broadcast_type(const GraphNode& node, const ArrayType& arg) {
  require_alike(node.type, arg);
  const Numbers& axes = node.fields[0];
  require_count(axes, arg.dims.size(), "axes");
  require_axes(axes, node.type);
  for (std::size_t k = 0; k < axes.size(); ++k) {
    const std::int64_t to = node.type.dims[static_cast<std::size_t>(axes[k])];
    if (arg.dims[k] == to || arg.dims[k] == 1) continue;
    refuse_node(fmt::format("axis {} has {} elements, and is to have {} (expected 1, or as many)",
                            k, arg.dims[k], to));
  }
  return node.type;
}

ArrayType reshape_type(const GraphNode& node, const ArrayType& arg) {
  require_alike(node.type, arg);
  if (node.type.num_elements() && *node.type.num_elements() == *arg.num_elements())
    return node.type;
  refuse_node(fmt::format("{} has {} elements, {} has another number", arg.to_string(),
                          *arg.num_elements(), node.type.to_string()));
}

ArrayType transpose_type(const GraphNode& node, const ArrayType& arg) {
  const Numbers& axes = node.fields[0];
  require_count(axes, arg.dims.size(), "the order");
  require_axes(axes, arg);
  ArrayType type = arg;
  for (std::size_t k = 0; k < axes.size(); ++k)
    type.dims[k] = arg.dims[static_cast<std::size_t>(axes[k])];
  return type;
}

ArrayType slice_type(const GraphNode& node, const ArrayType& arg) {
  require_alike(node.type, arg);
  const auto& start = node.fields[0];
  const auto& step = node.fields[1];
  require_count(start, arg.dims.size(), "start");
  require_count(step, arg.dims.size(), "step");
  if (node.type.dims.size() != arg.dims.size())
    refuse_node("a slice has as many axes as its operand");
  for (std::size_t k = 0; k < arg.dims.size(); ++k) {
    const std::int64_t count = node.type.dims[k];
    if (step[k] == 0) refuse_node(fmt::format("the step of axis {} is 0", k));
    if (count < 0) refuse_node(fmt::format("axis {} has {} elements", k, count));
    if (count == 0) continue;
    const Int128 last = Int128(start[k]) + Int128(step[k]) * (count - 1);
    if (start[k] >= 0 && start[k] < arg.dims[k] && last >= 0 && last < arg.dims[k]) continue;
    refuse_node(fmt::format("axis {} is sliced from {} by {} for {} elements, and has {}", k,
                            start[k], step[k], count, arg.dims[k]));
  }
  return node.type;
}

ArrayType concatenate_type(const GraphNode& node, std::span<const ArrayType> args) {
  if (args.empty()) refuse_node("there is nothing to concatenate");
  const std::int64_t axis = node.fields[0][0];
  require_axis(axis, args[0]);
  ArrayType type = args[0];
  Int128 extent = 0;
  for (std::size_t n = 0; n < args.size(); ++n) {
    ArrayType alike = args[n];
    if (alike.dims.size() == type.dims.size()) {
      extent += alike.dims[axis_index(axis)];
      alike.dims[axis_index(axis)] = args[0].dims[axis_index(axis)];
    }
    if (alike == args[0]) continue;
    refuse_node(fmt::format("part {} is {}, part 0 {}; they may differ in axis {} alone", n,
                            args[n].to_string(), args[0].to_string(), axis));
  }
  type.dims[axis_index(axis)] = narrow_extent(extent);
  return type;
}

ArrayType pad_type(const GraphNode& node, const ArrayType& arg, const ArrayType& value) {
  require_alike(value, arg);
  if (!value.dims.empty())
    refuse_node(fmt::format("the value is {}, no scalar", value.to_string()));
  ArrayType type = arg;
  constexpr std::array<std::string_view, 3> names{"low", "high", "interior"};
  for (std::size_t n = 0; n < names.size(); ++n) {
    require_count(node.fields[n], arg.dims.size(), names[n]);
    for (std::size_t k = 0; k < arg.dims.size(); ++k) {
      if (node.fields[n][k] >= 0) continue;
      refuse_node(fmt::format("{} of axis {} is {}; slice to take elements away", names[n], k,
                              node.fields[n][k]));
    }
  }
  for (std::size_t k = 0; k < arg.dims.size(); ++k) {
    const Int128 between =
        arg.dims[k] == 0 ? Int128(0) : Int128(arg.dims[k] - 1) * node.fields[2][k];
    type.dims[k] =
        narrow_extent(Int128(arg.dims[k]) + between + node.fields[0][k] + node.fields[1][k]);
  }
  return type;
}

ArrayType dot_type(const GraphNode& node, const ArrayType& a, const ArrayType& b) {
  const auto& [batch_a, batch_b, contract_a, contract_b] =
      std::tie(node.fields[0], node.fields[1], node.fields[2], node.fields[3]);
  const auto pair = [&](const Numbers& left, const Numbers& right, std::string_view what) {
    if (left.size() != right.size())
      refuse_node(fmt::format("{} axes {} and {} are not as many", what, show_numbers(left),
                              show_numbers(right)));
    for (std::size_t k = 0; k < left.size(); ++k) {
      require_axis(left[k], a);
      require_axis(right[k], b);
      const std::int64_t extents[] = {a.dims[static_cast<std::size_t>(left[k])],
                                      b.dims[static_cast<std::size_t>(right[k])]};
      if (extents[0] == extents[1]) continue;
      refuse_node(fmt::format("{} axis {} has {} elements, axis {} of the other has {}", what,
                              left[k], extents[0], right[k], extents[1]));
    }
  };
  pair(batch_a, batch_b, "batch");
  pair(contract_a, contract_b, "contracting");
  const auto typing = type_op(Op::mul, std::array{a.dtype, b.dtype});
  if (!typing) refuse_node("they have no common type; convert one with cast(x, dtype)");
  ArrayType type{typing->result};
  for (const std::int64_t axis : batch_a) type.dims.push_back(a.dims[axis_index(axis)]);
  const auto rest = [&](const ArrayType& arg, Numbers taken, const Numbers& contract) {
    taken.insert(taken.end(), contract.begin(), contract.end());
    require_axes(taken, arg);
    for (std::int64_t axis = 0; axis < rank_of(arg); ++axis) {
      if (std::ranges::find(taken, axis) == taken.end())
        type.dims.push_back(arg.dims[axis_index(axis)]);
    }
  };
  rest(a, batch_a, contract_a);
  rest(b, batch_b, contract_b);
  return type;
}

/// The type that holds a reduction's result, as in statements.
DType reduced_dtype(Op op, DType dtype) {
  if (op == Op::and_ || op == Op::or_) return DType::bool_;
  const bool counts = op == Op::add || op == Op::mul;
  return counts && dtype == DType::bool_ ? DType::i32 : dtype;
}

ArrayType reduce_type(const GraphNode& node, const ArrayType& arg) {
  require_reduction(node.op);
  const Numbers& axes = node.fields[0];
  require_axes(axes, arg);
  if (!std::ranges::is_sorted(axes)) refuse_node("its axes are not in rising order");
  const bool is_extreme = node.op == Op::max || node.op == Op::min;
  for (const std::int64_t axis : axes) {
    if (!is_extreme || arg.dims[axis_index(axis)] != 0) continue;
    refuse_node(fmt::format("axis {} has no elements, and '{}' of none has no value; pad it first",
                            axis, op_info(node.op).name));
  }
  ArrayType type{reduced_dtype(node.op, arg.dtype)};
  for (std::int64_t axis = 0; axis < rank_of(arg); ++axis) {
    if (std::ranges::find(axes, axis) == axes.end())
      type.dims.push_back(arg.dims[axis_index(axis)]);
  }
  return type;
}

ArrayType cumulate_type(const GraphNode& node, const ArrayType& arg) {
  require_reduction(node.op);
  require_axis(node.fields[0][0], arg);
  return {reduced_dtype(node.op, arg.dtype), arg.dims};
}

ArrayType sorted_type(const ArrayType& arg) {
  if (arg.dims.empty()) refuse_node("there is no axis to sort along");
  if (arg.dtype != DType::u32 && arg.dtype != DType::u64)
    refuse_node(fmt::format("it sorts {} (expected u32 or u64)", name(arg.dtype)));
  return arg;
}

/// The number of places of a window that spans `size` elements, `dilation` apart, in steps of
/// `step`. A window of one element on an empty axis has 0 places: such an axis is not windowed.
std::int64_t window_count(std::int64_t extent, std::int64_t size, std::int64_t step,
                          std::int64_t dilation, std::size_t axis) {
  if (size < 1 || step < 1 || dilation < 1) {
    refuse_node(
        fmt::format("the window of axis {} has size {}, step {} and dilation {} (expected 1 or "
                    "more)",
                    axis, size, step, dilation));
  }
  const Int128 span = Int128(size - 1) * dilation + 1;
  if (span == 1 && extent == 0) return 0;
  if (span > extent) {
    refuse_node(
        fmt::format("the window of axis {} spans {} elements, and there are {}; pad it, or take "
                    "a smaller window",
                    axis, narrow(span), extent));
  }
  return narrow_extent((Int128(extent) - span) / step + 1);
}

ArrayType window_type(const GraphNode& node, const ArrayType& arg) {
  require_reduction(node.op);
  constexpr std::array<std::string_view, 3> names{"size", "step", "dilation"};
  for (std::size_t n = 0; n < names.size(); ++n)
    require_count(node.fields[n], arg.dims.size(), names[n]);
  ArrayType type{reduced_dtype(node.op, arg.dtype), arg.dims};
  for (std::size_t k = 0; k < arg.dims.size(); ++k) {
    type.dims[k] =
        window_count(arg.dims[k], node.fields[0][k], node.fields[1][k], node.fields[2][k], k);
  }
  return type;
}

ArrayType conv_type(const GraphNode& node, const ArrayType& x, const ArrayType& w) {
  constexpr std::size_t before = 3;  // axes of images, groups and channels
  if (x.dims.size() < before || w.dims.size() != x.dims.size())
    refuse_node("images and filters have as many axes, 3 and those of space");
  if (x.dims[1] != w.dims[0])
    refuse_node(fmt::format("images have {} groups, filters {}", x.dims[1], w.dims[0]));
  if (x.dims[2] != w.dims[2]) {
    refuse_node(
        fmt::format("images have {} channels in each group, filters {}", x.dims[2], w.dims[2]));
  }
  const auto typing = type_op(Op::mul, std::array{x.dtype, w.dtype});
  if (!typing) refuse_node("they have no common type; convert one with cast(x, dtype)");
  ArrayType type{typing->result, {x.dims[0], x.dims[1], w.dims[1]}};
  require_count(node.fields[0], x.dims.size() - before, "step");
  require_count(node.fields[1], x.dims.size() - before, "dilation");
  for (std::size_t k = 0; k < node.fields[0].size(); ++k) {
    type.dims.push_back(window_count(x.dims[before + k], w.dims[before + k], node.fields[0][k],
                                     node.fields[1][k], k));
  }
  return type;
}

/// Checks the numbers of operands and fields, which a parsed text may get wrong.
void require_form(const GraphNode& node, std::size_t args) {
  const KindInfo& info = kind_info(node.kind);
  const std::size_t arity = node.kind == NodeKind::element ? op_info(node.op).arity : info.arity;
  if (arity != any_arity && args != arity)
    refuse_node(fmt::format("it has {} operands (expected {})", args, arity));
  for (std::size_t k = 0; k < info.fields.size(); ++k) {
    const std::string_view field = info.fields[k];
    const bool single = field == "index" || field == "axis" || field == "reverse";
    if (single && node.fields[k].size() != 1)
      refuse_node(fmt::format("{} has {} numbers (expected 1)", field, node.fields[k].size()));
    if (field == "reverse" && node.fields[k][0] != 0 && node.fields[k][0] != 1)
      refuse_node(fmt::format("reverse is {} (expected 0 or 1)", node.fields[k][0]));
  }
}

ArrayType given_type(const GraphNode& node) {
  if (const std::string problem = dtype_problem(node.type.dtype); !problem.empty())
    refuse_node(problem);
  if (node.type.layout != Layout::row_major) {
    refuse_node(fmt::format("its layout is {} (expected Layout::row_major)",
                            static_cast<unsigned>(node.type.layout)));
  }
  for (std::size_t k = 0; k < node.type.dims.size(); ++k) {
    if (node.type.dims[k] < 0) {
      refuse_node(
          fmt::format("axis {} has {} elements (expected 0 or more)", k, node.type.dims[k]));
    }
  }
  if (node.kind == NodeKind::iota) require_axis(node.fields[0][0], node.type);
  if (node.kind == NodeKind::constant && !node.type.dims.empty())
    refuse_node("a constant is a scalar; broadcast it");
  return node.type;
}

}  // namespace

ArrayType type_of(const GraphNode& node, std::span<const ArrayType> args) {
  require_form(node, args.size());
  switch (node.kind) {
    case NodeKind::parameter:
    case NodeKind::constant:
    case NodeKind::iota:
      return given_type(node);
    case NodeKind::element:
      return element_type(node, args);
    case NodeKind::cast:
      return {given_type(node).dtype, args[0].dims};
    case NodeKind::broadcast:
      static_cast<void>(given_type(node));
      return broadcast_type(node, args[0]);
    case NodeKind::reshape:
      static_cast<void>(given_type(node));
      return reshape_type(node, args[0]);
    case NodeKind::transpose:
      return transpose_type(node, args[0]);
    case NodeKind::slice:
      return slice_type(node, args[0]);
    case NodeKind::concatenate:
      return concatenate_type(node, args);
    case NodeKind::pad:
      return pad_type(node, args[0], args[1]);
    case NodeKind::dot:
      return dot_type(node, args[0], args[1]);
    case NodeKind::reduce:
      return reduce_type(node, args[0]);
    case NodeKind::cumulate:
      return cumulate_type(node, args[0]);
    case NodeKind::window:
      return window_type(node, args[0]);
    case NodeKind::conv:
      return conv_type(node, args[0], args[1]);
    case NodeKind::gather:
      return gather_type(node, args);
    case NodeKind::scatter:
      return scatter_type(node, args);
    case NodeKind::sorted:
      return sorted_type(args[0]);
    case NodeKind::order:
      return order_type(node, args);
  }
  return node.type;
}

}  // namespace heddle::jit
