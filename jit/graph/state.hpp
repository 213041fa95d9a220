// GraphState: the state shared by the handles on a graph and its nodes: the nodes in creation
// order, and their scopes and marks. One thread builds the graph; a finished graph does not change.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <source_location>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "heddle/graph.hpp"
#include "jit/graph/nodes.hpp"

namespace heddle::jit {

/// A node, and the source location of its first construction.
struct MadeNode {
  GraphNode node;
  std::source_location where;
  std::uint32_t scope = 0;  ///< position in GraphState::scopes
};

class Called;

struct GraphState {
  explicit GraphState(std::string graph_name);
  GraphState(const GraphState&) = delete;
  GraphState& operator=(const GraphState&) = delete;

  /// Adds the node after checking its type (see type_of()), and returns its id; an equal node of
  /// the graph is returned instead of a duplicate. The given type is ignored where the type follows
  /// from the operands. Throws failed_precondition in a finished graph.
  NodeId add(GraphNode node, std::source_location where);
  /// Throws failed_precondition in a finished graph, which must not change.
  void require_unfinished(std::string_view what, std::source_location where) const;

  [[nodiscard]] const GraphNode& node(NodeId id) const { return nodes[id].node; }
  [[nodiscard]] const ArrayType& type(NodeId id) const { return nodes[id].node.type; }
  /// "%7 add f32[32,10] (mlp.cpp:12)"; no location where it is unknown.
  [[nodiscard]] std::string show(NodeId id) const;
  /// Throws invalid_argument: "'sum' of %3 x f32[2,3] (a.cpp:5): `problem`, at a.cpp:9". If the
  /// user called a different operation, the text begins with that operation and its operands.
  [[noreturn]] void refuse(std::string_view what, std::span<const NodeId> operands,
                           std::string_view problem, std::source_location where) const;
  /// The open scope: a position among `scopes`.
  [[nodiscard]] std::uint32_t scope() const {
    return open_scopes.empty() ? 0 : open_scopes.back().second;
  }
  /// The position of a scope among `scopes`; adds the scope if it is new.
  std::uint32_t scope_at(std::string path);
  /// The nodes that the results need, by position. Nodes of parameters are always live.
  [[nodiscard]] std::vector<bool> live() const;

  std::string name;
  std::deque<MadeNode> nodes;  // a deque: references of Node::type() stay valid
  std::vector<std::string> scopes{std::string()};
  /// Each living Graph::Scope with its path, in creation order.
  std::vector<std::pair<const void*, std::uint32_t>> open_scopes;
  std::vector<NodeId> parameters;
  std::vector<std::string> parameter_names;
  std::vector<NodeId> results;
  std::vector<std::pair<NodeId, std::string>> marks;  ///< Node::log(), in order
  std::set<NodeId> keeps;                             ///< keep()
  /// A variable that the function reads (heddle/variable.hpp).
  struct VariableUse {
    std::shared_ptr<void> variable;
    std::size_t first_parameter = 0;  ///< the first parameter of the variable's leaves
    std::vector<NodeId> nodes;        ///< the variable's current value, at this point of the trace
    bool updated = false;             ///< the function assigned a new value
  };
  std::vector<VariableUse> variables;
  bool takes_variables = false;  ///< the graph belongs to an executor
  bool finished = false;
  const Called* called = nullptr;  ///< the outermost operation under construction

 private:
  struct Hash {
    const GraphState* graph;
    std::size_t operator()(NodeId id) const noexcept;
  };
  struct Equal {
    const GraphState* graph;
    bool operator()(NodeId a, NodeId b) const noexcept { return graph->node(a) == graph->node(b); }
  };

  ArrayType checked_type(const GraphNode& node, std::source_location where) const;
  /// "'sum' of %3 x f32[2,3] (a.cpp:5)".
  std::string naming(std::string_view operation, std::span<const NodeId> operands) const;

  std::unordered_set<NodeId, Hash, Equal> known_;
  std::unordered_map<std::string, std::uint32_t> known_scopes_;
};

/// "mlp.cpp:12": the file without its folders.
[[nodiscard]] std::string show(std::source_location where);
/// ", at mlp.cpp:12"; empty where the place is not known.
[[nodiscard]] std::string at(std::source_location where);

/// Graph::finish(). `name_of(k)`: what errors call result k.
void finish_graph(GraphState& graph, std::span<const Node> results,
                  const std::function<std::string(std::size_t)>& name_of,
                  std::source_location where);

// Helpers of operations. Errors: see heddle/graph.hpp.

/// The graph of a node. Throws for a default node, with `what` as the name of the operation.
[[nodiscard]] const std::shared_ptr<GraphState>& graph_of(const Node& node, std::string_view what,
                                                          std::source_location where = {});
struct GraphPlace {
  const GraphState* graph;
  NodeId id;
};
/// Throws invalid_argument that names both graphs.
[[noreturn]] void refuse_two_graphs(GraphPlace one, GraphPlace other, std::string_view what,
                                    std::source_location where);
[[nodiscard]] NodeId id_of(const Node& node) noexcept;
/// A handle on the graph of a node.
[[nodiscard]] Graph graph_with(const Node& node);
/// Makes operands at one source location.
struct At {
  std::source_location where;
  Operand operator()(const Node& node) const { return {node, where}; }
  template <Number T>
  Operand operator()(T number) const {
    return {number, where};
  }
};
/// Adds a node, and returns a handle on the node.
[[nodiscard]] Node make_node(const std::shared_ptr<GraphState>& graph, GraphNode node,
                             std::source_location where);
/// A scalar of `dtype` with `value` converted to that type.
[[nodiscard]] Node constant_node(const std::shared_ptr<GraphState>& graph, const Scalar& value,
                                 DType dtype, std::source_location where);
/// Throws where a finite number would become infinite in a floating-point `dtype`.
void require_finite(const ExprNode& literal, DType dtype, const Called& call);
/// An operand of `call`: a node converted to `dtype`, or a number as a constant of `dtype`. Throws
/// where an integer does not fit.
[[nodiscard]] Node operand_node(const Operand& operand, DType dtype, const Called& call);
/// `node` converted to the type of x. Throws where the type of x does not hold every value of the
/// node's type.
[[nodiscard]] Node typed_as(const Node& x, const Node& node, const Called& call);
/// The type to which all nodes convert.
[[nodiscard]] DType common_type(std::span<const Node> nodes, const Called& call);
/// Floating-point nodes unchanged, other nodes as f32.
[[nodiscard]] Node as_floating(const Node& x, std::source_location where);
/// Integers as i64, clamped to 0 .. `last`.
[[nodiscard]] Node nearest_places(const Node& places, std::int64_t last,
                                  std::source_location where);
/// `axis` of the type or node; a negative axis is counted from the end. Throws for an axis out of
/// range.
[[nodiscard]] std::int64_t axis_of(const ArrayType& type, std::int64_t axis, const Called& call);
[[nodiscard]] std::int64_t axis_of(const Node& node, std::int64_t axis, const Called& call);
/// axis_of() for several axes, without duplicates; in rising order.
[[nodiscard]] Numbers axes_of(const Node& node, const Axes& axes, const Called& call);
/// 0, 1, ... below `count`.
[[nodiscard]] Numbers first_axes(std::size_t count);
/// 0, 1, ... below `rank`, with a and b exchanged.
[[nodiscard]] Axes swapped_axes(std::int64_t rank, std::int64_t a, std::int64_t b);
/// The node broadcast to `dims`, as in NumPy; the node itself where the shape is equal.
[[nodiscard]] Node broadcast_as(const Node& node, const Dims& dims, std::source_location where);
/// The common shape under NumPy's broadcasting; nullopt where the shapes do not fit together.
[[nodiscard]] std::optional<Dims> broadcast_dims(std::span<const Dims> shapes);

}  // namespace heddle::jit
