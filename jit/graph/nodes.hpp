// Nodes of graphs as values, and the kinds of nodes with their types. Pure; any thread.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "heddle/types.hpp"
#include "jit/value/ops.hpp"

namespace heddle::jit {

using NodeId = std::uint32_t;  ///< position among the nodes of its graph; operands have lower ones
using Numbers = std::vector<std::int64_t>;

/// The kinds to which all operations of graphs are lowered. In brackets: the fields, in order; d:
/// one number for each axis of the result, x: one for each axis of the operand.
enum class NodeKind : std::uint8_t {
  parameter,    ///< [index]
  constant,     ///< one element
  iota,         ///< [axis]
  element,      ///< op(args...); the operands have one shape
  cast,         ///< to the node's dtype
  broadcast,    ///< [axes x]: axis k of the operand is axis axes[k] here, or has one element
  reshape,      ///< the same elements in row-major order
  transpose,    ///< [axes d]: axis k here is axis axes[k] of the operand
  slice,        ///< [start d, step d]: element p is start + step * p; steps may be negative
  concatenate,  ///< [axis]
  pad,          ///< (x, value) [low x, high x, interior x]: none negative
  dot,          ///< (a, b) [batch_a, batch_b, contract_a, contract_b]: batch axes, a's, b's
  reduce,       ///< [axes]: op is add, mul, max, min, and, or; axes in rising order
  cumulate,     ///< [axis, reverse]: op of all elements up to each one
  window,       ///< [size x, step x, dilation x]: op of the elements in each window
  conv,         ///< (x, w) [step, dilation]: x[n, g, c, s...], w[g, o, c, k...]: [n, g, o, t...]
  gather,       ///< (x, indices...) [axes, sizes x]: see below
  scatter,      ///< (x, updates, indices...) [axes]: op of x and, in order, each update
  sorted,       ///< rows along the last axis, of u32 or u64, in rising order
  order,        ///< (keys...) [axis]: places along the axis, in rising order of the keys: see below
};

// gather and scatter: the index arrays have one shape, b, and hold places along the listed axes of
// x, in rising order. Each place begins a window of x, of `sizes` elements; along an unlisted axis
// the window is the whole axis. The result of gather, and the updates of scatter, are [b...,
// window...]. gather moves a window that does not fit inside x; scatter skips such a window (J13).
// With Op::arg2, scatter stores the update itself.

// order: the keys are unsigned and have one shape, the shape of the result; the result is i32, or
// i64 where places need 64 bits. Each row along the axis lists its places in rising order of the
// first key; equal first keys are ordered by the next key, and equal keys by the lower place.

/// Converts an axis to an index of containers.
[[nodiscard]] inline std::size_t axis_index(std::int64_t axis) noexcept {
  return static_cast<std::size_t>(axis);
}

struct KindInfo {
  std::string_view name;
  /// any_arity: no fixed number; for element, the number of the operation's operands
  std::size_t arity;
  std::vector<std::string_view> fields;
};
inline constexpr std::size_t any_arity = ~std::size_t{0};
[[nodiscard]] const KindInfo& kind_info(NodeKind kind) noexcept;
[[nodiscard]] std::span<const KindInfo> all_kinds() noexcept;

/// True if nodes of this kind have an operation.
[[nodiscard]] bool has_op(NodeKind kind) noexcept;

/// A node without its source location: equal nodes of a graph are stored once.
struct GraphNode {
  NodeKind kind = NodeKind::constant;
  Op op = Op::identity;
  ArrayType type;
  std::vector<NodeId> args;
  std::vector<Numbers> fields;
  Scalar scalar;  ///< constant
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

/// The type of a node whose operands have types `args`. For kinds whose type does not follow from
/// the operands (parameter, constant, iota, cast, broadcast, reshape, slice): the node's own type,
/// checked. Throws Error(invalid_argument) that says what was expected and how to fix the call,
/// without naming the node.
[[nodiscard]] ArrayType type_of(const GraphNode& node, std::span<const ArrayType> args);

/// The operation's name for an element node, "add"; otherwise the kind's name, "reduce".
[[nodiscard]] std::string_view title(const GraphNode& node) noexcept;

}  // namespace heddle::jit
