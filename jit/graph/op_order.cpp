// Sorting, and operations based on sorting. All of them sort unsigned keys in the order of the
// elements.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>

#include "heddle/graph_ops.hpp"
#include "jit/describe/expr.hpp"
#include "jit/graph/called.hpp"
#include "jit/graph/state.hpp"

namespace heddle {
namespace {

using jit::At;
using jit::GraphNode;
using jit::NodeKind;

/// Fewer values are searched one by one.
constexpr std::int64_t searched_together = 256;

DType unsigned_type(std::size_t bytes) {
  return bytes == 8 ? DType::u64 : bytes == 4 ? DType::u32 : bytes == 2 ? DType::u16 : DType::u8;
}

/// The highest and the middle value of an unsigned type, as nodes of the graph of x.
Node highest_key(const Node& x, DType type, CallSite where) {
  const auto highest = std::numeric_limits<std::uint64_t>::max() >> (64 - 8 * size_of(type));
  return jit::graph_with(x).constant(highest, type, where);
}
Node middle_key(const Node& x, DType type, CallSite where) {
  return jit::graph_with(x).constant(std::uint64_t{1} << (8 * size_of(type) - 1), type, where);
}

enum class Zeros : std::uint8_t {
  equal,  ///< -0 and 0 have one key
  apart,  ///< -0 is below 0: each number has a key of its own
};

/// Numbers first, then NaN, all of one key.
Node rising_key(const Node& x, Zeros zeros, CallSite where) {
  const At at{where};
  const DType dtype = x.dtype();
  if (!is_floating(dtype) && !info(dtype).is_signed) return x;
  const DType bits = unsigned_type(size_of(dtype));
  const Node half = middle_key(x, bits, where);
  const Node raw = bitcast(at(x), bits);
  const Node raised = cast(at(at(raw) + at(half)), bits);
  if (is_integer(dtype)) return raised;
  const Node flipped = zeros == Zeros::equal
                           ? cast(at(-at(raw)), bits)
                           : cast(at(at(highest_key(x, bits, where)) - at(raw)), bits);
  return select(at(at(raw) < at(half)), at(raised), at(flipped));
}

/// The same order from the other end.
Node falling(const Node& key, CallSite where) {
  const At at{where};
  if (key.dtype() == DType::bool_) return !at(key);
  return cast(at(at(highest_key(key, key.dtype(), where)) - at(key)), key.dtype());
}

Node key_of(const Node& x, Zeros zeros, bool descending, CallSite where) {
  const Node key = rising_key(x, zeros, where);
  return descending ? falling(key, where) : key;
}

/// The element of type `dtype` that has the key, which has zeros apart.
Node element_of(const Node& key, DType dtype, CallSite where) {
  const At at{where};
  if (!is_floating(dtype) && !info(dtype).is_signed) return key;
  const DType bits = key.dtype();
  const Node half = middle_key(key, bits, where);
  const Node raw = cast(at(at(key) - at(half)), bits);
  if (is_integer(dtype)) return bitcast(at(raw), dtype);
  const Node flipped = falling(key, where);
  return bitcast(select(at(at(key) >= at(half)), at(raw), at(flipped)), dtype);
}

/// Sorting networks take this many rows side by side.
constexpr std::int64_t network_rows_min = 8;

/// The longest row that a network sorts faster than the node `order`, which sorts one byte of the
/// keys after the other. Measured: 64 rows, AVX-512.
std::int64_t sorted_count_max(std::size_t key_bytes) {
  return key_bytes == 1 ? 512 : key_bytes == 2 ? 16 << 10 : 32 << 10;
}
/// The same where the places are sorted, in elements of twice the bytes.
std::int64_t places_count_max(std::size_t key_bytes) {
  return key_bytes == 1 ? 128 : key_bytes == 2 ? 512 : 4 << 10;
}

/// True if networks should sort rows along the axis, of at most `count_max` elements.
bool by_network(const Dims& dims, std::int64_t axis, std::int64_t count_max) {
  const std::int64_t count = dims[jit::axis_index(axis)];
  if (count < 2 || count > count_max) return false;
  return *ArrayType{DType::u8, dims}.num_elements() / count >= network_rows_min;
}

/// u32 or u64 keys, in rising order along the axis.
Node sorted_keys(const Node& keys, std::int64_t axis, CallSite where) {
  const Axes swapped = jit::swapped_axes(keys.rank(), axis, keys.rank() - 1);
  const Node turned = transpose(keys, swapped, where);
  const std::vector<std::int64_t> dims(turned.dims().begin(), turned.dims().end());
  const Node rows = reshape(turned, {-1, dims.back()}, where);
  GraphNode node;
  node.kind = NodeKind::sorted;
  node.args = {jit::id_of(rows)};
  const Node made = jit::make_node(jit::graph_of(rows, "sort"), std::move(node), where);
  return transpose(reshape(made, dims, where), swapped, where);
}

/// The elements themselves by a network: keys have all of their bits.
Node sorted_elements(const Node& x, std::int64_t axis, bool descending, CallSite where) {
  const At at{where};
  const Node key = key_of(x, Zeros::apart, descending, where);
  const DType wide = size_of(key.dtype()) == 8 ? DType::u64 : DType::u32;
  const Node sorted = sorted_keys(cast(at(key), wide), axis, where);
  const Node narrow = cast(at(sorted), key.dtype());
  return element_of(descending ? falling(narrow, where) : narrow, x.dtype(), where);
}

/// Places by a network, of keys with fewer than 64 bits: each beside its place in one u64.
Node places_by_network(const Node& key, std::int64_t axis, CallSite where) {
  const At at{where};
  const Graph graph = jit::graph_with(key);
  const Node place = graph.iota({DType::u64, key.dims()}, axis, where);
  const Node factor = graph.constant(std::uint64_t{1} << 32U, DType::u64, where);
  const Node pairs = at(at(cast(at(key), DType::u64)) * at(factor)) + at(place);
  return cast(at(at(sorted_keys(pairs, axis, where)) % at(factor)), DType::i32);
}

/// Places along the axis, in rising order of the first key, then the next, then the places.
Node order_of(std::span<const Node> keys, std::int64_t axis, CallSite where) {
  const std::size_t key_bytes = size_of(keys[0].dtype());
  if (keys.size() == 1 && key_bytes < 8 &&
      by_network(keys[0].dims(), axis, places_count_max(key_bytes)))
    return places_by_network(keys[0], axis, where);
  GraphNode node;
  node.kind = NodeKind::order;
  for (const Node& key : keys) node.args.push_back(jit::id_of(key));
  node.fields = {{axis}};
  return jit::make_node(jit::graph_of(keys[0], "sort"), std::move(node), where);
}

/// The elements of one array in order, -0 before 0.
Node sorted_alone(const Node& x, std::int64_t axis, bool descending, CallSite where) {
  if (by_network(x.dims(), axis, sorted_count_max(size_of(x.dtype()))))
    return sorted_elements(x, axis, descending, where);
  const Node key = key_of(x, Zeros::apart, descending, where);
  return take_along_axis(x, order_of({&key, 1}, axis, where), axis, where);
}

/// The places, along the last axis of x, of the `count` lowest keys (made by `key`), in order. The
/// lowest elements all lie in the `count` blocks with the lowest minima; only those blocks are
/// sorted.
Node lowest_places(const Node& x, std::int64_t count, const std::function<Node(const Node&)>& key,
                   CallSite where) {
  const At at{where};
  const std::int64_t last = x.rank() - 1;
  const std::int64_t extent = x.dims().back();
  const auto first_of = [&](const Node& from) {
    const Node keys = key(from);
    return slice(order_of({&keys, 1}, last, where), last, {0, count}, where);
  };
  // Block size of about sqrt(extent / count): the number of sorted blocks is about the number of
  // elements in the chosen blocks.
  const auto share = static_cast<std::uint64_t>(extent / std::max<std::int64_t>(count, 1));
  const auto size = std::int64_t{1} << (static_cast<unsigned>(std::bit_width(share)) / 2);
  const std::int64_t blocks = extent / size;
  const std::int64_t whole = blocks * size;
  if (count == 0 || blocks <= count || (blocks + count * size) * 2 > extent) return first_of(x);

  const Graph graph = jit::graph_with(x);
  std::vector<std::int64_t> dims(x.dims().begin(), x.dims().end());
  dims.back() = blocks;
  dims.push_back(size);
  const Node parts = reshape(slice(x, last, {0, whole}, where), dims, where);
  const Node lowest = minimum(key(parts), {-1}, {}, where);
  const auto same = [](const Node& node) { return node; };
  const Node chosen = sort(lowest_places(lowest, count, same, where), -1, {}, where);
  // The elements of the chosen blocks in the order of their places, hence equal keys stay in order;
  // then the elements behind the last whole block.
  dims[jit::axis_index(last)] = count;
  const Node within = graph.iota({chosen.dtype(), Dims(dims)}, -1, where);
  const Node start =
      cast(at(at(expand_dims(chosen, {-1}, where)) * Operand(size, where)), chosen.dtype());
  dims.pop_back();
  dims.back() = count * size;
  Node places = reshape(at(start) + at(within), dims, where);
  if (whole < extent) {
    dims.back() = extent - whole;
    const Node rest = graph.iota({chosen.dtype(), Dims(dims)}, -1, where);
    places = concatenate({places, at(rest) + Operand(whole, where)}, last, where);
  }
  const Node candidates = take_along_axis(x, places, last, where);
  return take_along_axis(places, first_of(candidates), last, where);
}

/// True if a sorts before b, with NaN last.
Node is_before(const Node& a, const Node& b, CallSite where) {
  const At at{where};
  const Node less = at(a) < at(b);
  if (!is_floating(a.dtype()) && !is_floating(b.dtype())) return less;
  return at(less) || at(at(at(b) != at(b)) && at(at(a) == at(a)));
}

/// searchsorted() bit by bit, from the highest bit on.
Node bisected_places(const Node& sorted, const Node& values, Side side, CallSite where) {
  const At at{where};
  const std::int64_t count = sorted.dims()[0];
  Node found =
      broadcast_to(jit::graph_with(sorted).constant(0, DType::i64, where), values.dims(), where);
  if (count == 0) return found;
  for (auto step = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(count)));
       step > 0; step /= 2) {
    const Node more = at(found) + Operand(step, where);
    const Node element = take(sorted, at(more) - Operand(1, where), 0, where);
    const Node before = side == Side::left ? is_before(element, values, where)
                                           : !at(is_before(values, element, where));
    const Node inside = at(more) <= Operand(count, where);
    found = select(at(at(inside) && at(before)), at(more), at(found));
  }
  return found;
}

/// searchsorted() by sorting the values together with `sorted`: values sort before equal elements
/// for the left side, after them for the right side. Each bit of a binary search reads memory at
/// random; the sort makes about three random passes.
Node merged_places(const Node& sorted, const Node& values, Side side, CallSite where) {
  const At at{where};
  const bool left = side == Side::left;
  const Node flat = reshape(values, {-1}, where);
  const std::int64_t count = sorted.dims()[0];
  const std::int64_t searches = flat.dims()[0];
  const Node all =
      left ? concatenate({flat, sorted}, 0, where) : concatenate({sorted, flat}, 0, where);
  const Node key = key_of(all, Zeros::equal, false, where);
  const Node order = order_of({&key, 1}, 0, where);
  // The number of the value; out of range for elements of `sorted`, which the scatter then skips.
  const Node value = left ? order : at(order) - Operand(count, where);
  const Node is_element =
      left ? at(order) >= Operand(searches, where) : at(order) < Operand(count, where);
  const Node before = cumsum(cast(at(is_element), DType::i64), 0, {}, where);
  const Node none =
      broadcast_to(jit::graph_with(sorted).constant(0, DType::i64, where), flat.dims(), where);
  const Dims& dims = values.dims();
  return reshape(scatter(none, {value}, before, Scatter::set, where),
                 std::vector<std::int64_t>(dims.begin(), dims.end()), where);
}

}  // namespace

Node argsort(const Node& x, std::int64_t axis, Sort options, CallSite where) {
  const jit::Called call("argsort", where, x);
  const std::int64_t along = jit::axis_of(x, axis, call);
  const Node key = key_of(x, Zeros::equal, options.descending, where);
  return cast(Operand(order_of({&key, 1}, along, where), where), DType::i64);
}

std::vector<Node> sort(const std::vector<Node>& operands, std::int64_t axis, std::int64_t keys,
                       Sort options, CallSite where) {
  const jit::Called call("sort", where, operands);
  if (operands.empty()) call.refuse("there are no operands; it takes one at least");
  const std::int64_t along = jit::axis_of(operands[0], axis, call);
  if (keys < 1 || keys > std::ssize(operands)) {
    call.refuse(fmt::format("by the first {} of {} operands (expected 1 to {})", keys,
                            operands.size(), operands.size()));
  }
  for (const Node& each : operands) {
    if (each.dims() == operands[0].dims()) continue;
    call.refuse("operands have one shape; broadcast_to() gives it");
  }
  if (operands.size() == 1) return {sorted_alone(operands[0], along, options.descending, where)};
  std::vector<Node> by;
  for (std::int64_t k = 0; k < keys; ++k)
    by.push_back(key_of(operands[jit::axis_index(k)], Zeros::equal, options.descending, where));
  const Node order = order_of(by, along, where);
  std::vector<Node> sorted;
  for (const Node& each : operands) sorted.push_back(take_along_axis(each, order, along, where));
  return sorted;
}

Node sort(const Node& x, std::int64_t axis, Sort options, CallSite where) {
  const jit::Called call("sort", where, x);
  return sorted_alone(x, jit::axis_of(x, axis, call), options.descending, where);
}

TopK top_k(const Node& x, std::int64_t k, std::int64_t axis, CallSite where) {
  const jit::Called call("top_k", where, x);
  const std::int64_t along = jit::axis_of(x, axis, call);
  const std::int64_t extent = x.dims()[jit::axis_index(along)];
  if (k < 0 || k > extent) {
    call.refuse(fmt::format("{} of the {} elements along axis {} (expected 0 to {})", k, extent,
                            along, extent));
  }
  const Axes order = jit::swapped_axes(x.rank(), along, x.rank() - 1);
  const Node rows = transpose(x, order, where);
  const auto key = [where](const Node& node) { return key_of(node, Zeros::equal, true, where); };
  const Node places = transpose(lowest_places(rows, k, key, where), order, where);
  return {take_along_axis(x, places, along, where), cast(Operand(places, where), DType::i64)};
}

Node searchsorted(const Node& sorted, const Node& values, Side side, CallSite where) {
  const jit::Called call("searchsorted", where, sorted, values);
  if (sorted.rank() != 1) {
    call.refuse("what is searched has one axis; reshape it, or search row by row");
  }
  if (side != Side::left && side != Side::right) {
    call.refuse(fmt::format("the side is {} (expected a value of Side)", static_cast<int>(side)));
  }
  const DType common = jit::common_type(std::array{sorted, values}, call);
  const Node table = cast(Operand(sorted, where), common);
  const Node wanted = cast(Operand(values, where), common);
  const std::int64_t searches = *values.type().num_elements();
  const bool many = searches >= searched_together && searches >= sorted.dims()[0] / 4;
  return many ? merged_places(table, wanted, side, where)
              : bisected_places(table, wanted, side, where);
}

}  // namespace heddle
