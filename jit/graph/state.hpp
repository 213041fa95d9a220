// The state that handles on a graph and its nodes share: the nodes in the order of their making,
// and what is known of each. One thread builds; once finished it does not change.
#pragma once

#include <cstddef>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
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

/// A node of a graph: itself, and where it was made first.
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

  /// The node that is equal to this one, or this one as a new one, once its type was checked (see
  /// type_of(); the node's own counts for nothing where it follows from the operands). Throws
  /// failed_precondition in a finished graph.
  NodeId add(GraphNode node, std::source_location where);
  /// Throws failed_precondition in a finished graph, of which nothing may be touched any more.
  void require_unfinished(std::string_view what, std::source_location where) const;

  [[nodiscard]] const GraphNode& node(NodeId id) const { return nodes[id].node; }
  [[nodiscard]] const ArrayType& type(NodeId id) const { return nodes[id].node.type; }
  /// "%7 add f32[32,10] (mlp.cpp:12)", without a place that is not known.
  [[nodiscard]] std::string show(NodeId id) const;
  /// Throws invalid_argument: "'sum' of %3 x f32[2,3] (a.cpp:5): `problem`, at a.cpp:9", after the
  /// operation that was called and its operands where these are others.
  [[noreturn]] void refuse(std::string_view what, std::span<const NodeId> operands,
                           std::string_view problem, std::source_location where) const;
  /// The present one: a position among `scopes`.
  [[nodiscard]] std::uint32_t scope() const {
    return open_scopes.empty() ? 0 : open_scopes.back().second;
  }
  /// The position of a scope among `scopes`, where it is put if it is new.
  std::uint32_t scope_at(std::string path);
  /// Which nodes the results need, by position; those of parameters too, needed or not.
  [[nodiscard]] std::vector<bool> live() const;

  std::string name;
  std::deque<MadeNode> nodes;  // Node::type() refers into it while others are added
  std::vector<std::string> scopes{std::string()};
  /// Graph::Scope and its path, those that live, in the order of their making.
  std::vector<std::pair<const void*, std::uint32_t>> open_scopes;
  std::vector<NodeId> parameters;
  std::vector<std::string> parameter_names;
  std::vector<NodeId> results;
  std::vector<std::pair<NodeId, std::string>> marks;  ///< Node::log(), in order
  /// A variable that the function reads (heddle/variable.hpp).
  struct VariableUse {
    std::shared_ptr<void> variable;
    std::size_t first_parameter = 0;  ///< its leaves are parameters from that one on
    std::vector<NodeId> nodes;        ///< its value, at the end of what was built so far
    bool updated = false;             ///< that is another one
  };
  std::vector<VariableUse> variables;
  bool takes_variables = false;  ///< it is an executor's
  bool finished = false;
  const Called* called = nullptr;  ///< the outermost operation that is being made

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

// What operations are made of. All throw as heddle/graph.hpp says.

/// The graph of a node, and its place there. Throws for a default node, naming `what` takes it.
[[nodiscard]] const std::shared_ptr<GraphState>& graph_of(const Node& node, std::string_view what,
                                                          std::source_location where = {});
struct GraphPlace {
  const GraphState* graph;
  NodeId id;
};
/// Throws invalid_argument that names both.
[[noreturn]] void refuse_two_graphs(GraphPlace one, GraphPlace other, std::string_view what,
                                    std::source_location where);
[[nodiscard]] NodeId id_of(const Node& node) noexcept;
/// A handle on the graph of a node.
[[nodiscard]] Graph graph_with(const Node& node);
/// Operands at one place of the user's source.
struct At {
  std::source_location where;
  Operand operator()(const Node& node) const { return {node, where}; }
  template <Number T>
  Operand operator()(T number) const {
    return {number, where};
  }
};
/// Adds a node, and gives a handle on it.
[[nodiscard]] Node make_node(const std::shared_ptr<GraphState>& graph, GraphNode node,
                             std::source_location where);
/// A scalar of `dtype` that has this value, which it converts.
[[nodiscard]] Node constant_node(const std::shared_ptr<GraphState>& graph, const Scalar& value,
                                 DType dtype, std::source_location where);
/// Throws where a finite number would become infinite in a type of floats.
void require_finite(const ExprNode& literal, DType dtype, const Called& call);
/// An operand of `call`: a node as one of `dtype`, a number as a constant of it. Throws where an
/// integer does not fit.
[[nodiscard]] Node operand_node(const Operand& operand, DType dtype, const Called& call);
/// A node as one of the type of x. Throws where that does not hold all that it may be.
[[nodiscard]] Node typed_as(const Node& x, const Node& node, const Called& call);
/// The type that all nodes convert to.
[[nodiscard]] DType common_type(std::span<const Node> nodes, const Called& call);
/// Floats as they are, else as f32.
[[nodiscard]] Node as_floating(const Node& x, std::source_location where);
/// Integers as i64, the nearest places from 0 to `last`.
[[nodiscard]] Node nearest_places(const Node& places, std::int64_t last,
                                  std::source_location where);
/// `axis` of the type or node, counted from its end where negative. Throws for one out of range.
[[nodiscard]] std::int64_t axis_of(const ArrayType& type, std::int64_t axis, const Called& call);
[[nodiscard]] std::int64_t axis_of(const Node& node, std::int64_t axis, const Called& call);
/// The same for several, none twice; in rising order.
[[nodiscard]] Numbers axes_of(const Node& node, const Axes& axes, const Called& call);
/// 0, 1, ... below `count`.
[[nodiscard]] Numbers first_axes(std::size_t count);
/// 0, 1, ... below `rank`, two of them exchanged.
[[nodiscard]] Axes swapped_axes(std::int64_t rank, std::int64_t a, std::int64_t b);
/// The node in shape `dims`, as NumPy broadcasts; itself where it has it.
[[nodiscard]] Node broadcast_as(const Node& node, const Dims& dims, std::source_location where);
/// The shape that NumPy gives operands of these; nullopt where they do not go together.
[[nodiscard]] std::optional<Dims> broadcast_dims(std::span<const Dims> shapes);

}  // namespace heddle::jit
