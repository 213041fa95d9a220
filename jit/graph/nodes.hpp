// What graphs are made of: nodes as values, and what each kind of them means for types. Pure; any
// thread.
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

/// The kinds that all operations of graphs come down to. In brackets the fields, in order; d: one
/// number for each axis of the result, x: for each of the operand.
enum class NodeKind : std::uint8_t {
  parameter,    ///< [index]
  constant,     ///< one element
  iota,         ///< [axis]
  element,      ///< op(args...), all of one shape
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
  order,        ///< (keys...) [axis]: places along the axis, in rising order of the keys: see below
};

// gather and scatter: the indices have one shape, b, and are places along the listed axes of x, in
// rising order. At each of them is a window of x, of `sizes` elements; along axes that are not
// listed it is the whole axis. The result of gather, and the updates of scatter, are [b...,
// window...]. A window that does not fit is moved inside where it is read, and left out where it
// is written (J13). arg2 as the operation of scatter puts the update there.

// order: the keys are unsigned and have one shape, which is the result's: i32, or i64 where places
// need it. Of each row along the axis, first the place where the first key is lowest; where it is
// the same, the next key decides, and at last the lower place.

/// An axis, as containers count.
[[nodiscard]] inline std::size_t axis_index(std::int64_t axis) noexcept {
  return static_cast<std::size_t>(axis);
}

struct KindInfo {
  std::string_view name;
  std::size_t arity;  ///< any_arity: as many as there are; element: its operation's
  std::vector<std::string_view> fields;
};
inline constexpr std::size_t any_arity = ~std::size_t{0};
[[nodiscard]] const KindInfo& kind_info(NodeKind kind) noexcept;
[[nodiscard]] std::span<const KindInfo> all_kinds() noexcept;

/// Whether nodes of this kind have an operation.
[[nodiscard]] bool has_op(NodeKind kind) noexcept;

/// A node without where it was made: equal ones of a graph are one.
struct GraphNode {
  NodeKind kind = NodeKind::constant;
  Op op = Op::identity;
  ArrayType type;
  std::vector<NodeId> args;
  std::vector<Numbers> fields;
  Scalar scalar;  ///< constant
  friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

/// The type of a node whose operands have these types; for kinds whose type does not follow from
/// them (parameter, constant, iota, cast, broadcast, reshape, slice) the node's own, checked.
/// Throws Error(invalid_argument) that says what was expected and what to do, not of whom.
[[nodiscard]] ArrayType type_of(const GraphNode& node, std::span<const ArrayType> args);

/// The operation of an element, "add"; else the kind's name, "reduce".
[[nodiscard]] std::string_view title(const GraphNode& node) noexcept;

}  // namespace heddle::jit
