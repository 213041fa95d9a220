// See graph/lower.hpp. A kept node becomes one tensor and the statements that compute the tensor;
// the other nodes become parts of their readers' expressions.
#include "jit/graph/lower.hpp"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "jit/describe/expr.hpp"
#include "jit/graph/places.hpp"
#include "jit/graph/plan.hpp"
#include "jit/graph/statement_maker.hpp"

namespace heddle::jit {
namespace {

class GraphLowering {
 public:
  explicit GraphLowering(const GraphState& graph)
      : graph_(graph), live_(graph.live()), kept_(kept_nodes(graph, live_)) {
    result_.program = Program(graph.name);
    tensors_.resize(graph.nodes.size());
    given_.resize(graph.nodes.size());
  }

  GraphProgram lower() {
    for (const NodeId id : graph_.parameters) {
      const GraphNode& node = graph_.node(id);
      tensors_[id] = Tensor(graph_.parameter_names[static_cast<std::size_t>(node.fields[0][0])],
                            node.type.dtype, node.type.dims);
      result_.parameters.push_back(*tensors_[id]);
    }
    for (NodeId id = 0; id < live_.size(); ++id) {
      if (live_[id] && kept_[id] != Keeping::none && !tensors_[id]) make(id);
    }
    for (const NodeId id : graph_.results) result_.results.push_back(given(id));
    for (const auto& [id, message] : graph_.marks) {
      // A marked result is read from the result's own tensor.
      const bool is_given = given_[id] && graph_.node(id).kind != NodeKind::parameter;
      result_.marked.push_back(is_given ? *tensors_[id] : given(id));
      result_.messages.push_back(message);
    }
    return std::move(result_);
  }

 private:
  /// The tensor of a result: the node's own tensor the first time; a copy for later results of the
  /// same node, and for a parameter.
  Tensor given(NodeId id) {
    const bool first = graph_.node(id).kind != NodeKind::parameter && !given_[id];
    given_[id] = true;
    Tensor tensor = *tensors_[id];
    if (!first) {
      tensor = Tensor(tensor.label(), tensor.dtype(), tensor.dims());
      StatementMaker maker(graph_, tensors_, tensor.dims());
      result_.program << (tensor.at(maker.target()) = tensors_[id]->at(maker.target()));
    }
    tensor.set_mode(MemoryMode::on_device, graph_.nodes[id].where);
    return tensor;
  }

  void make(NodeId id) {
    const GraphNode& node = graph_.node(id);
    if (const std::uint32_t scope = graph_.nodes[id].scope; scope != scope_) {
      scope_ = scope;
      result_.program.comment(scope == 0 ? "no scope" : graph_.scopes[scope]);
    }
    // A reshape that the plan did not keep is read at places of one flattened axis.
    const bool is_flat = node.kind == NodeKind::reshape && kept_[id] == Keeping::none;
    Tensor tensor(fmt::format("{}_{}", title(node), id), node.type.dtype,
                  is_flat ? Dims{*node.type.num_elements()} : node.type.dims);
    if (kept_[id] == Keeping::memory) tensor.set_mode(MemoryMode::never_virtual);
    // A node that cannot be read at affine places first gets a tensor of its own.
    while (true) {
      const auto made = statements_of(graph_, tensors_, id, tensor);
      if (const auto* const statements = std::get_if<std::vector<Statement>>(&made)) {
        for (const Statement& statement : *statements) result_.program << statement;
        break;
      }
      make(std::get<NodeId>(made));
    }
    tensors_[id] = tensor;
  }

  const GraphState& graph_;
  const std::vector<bool> live_;
  const std::vector<Keeping> kept_;
  std::vector<std::optional<Tensor>> tensors_;  // of parameters, and of the nodes made so far
  std::vector<bool> given_;                     // by node: the node is a result
  std::uint32_t scope_ = 0;
  GraphProgram result_;
};

}  // namespace

GraphProgram lower_graph(const GraphState& graph) { return GraphLowering(graph).lower(); }

}  // namespace heddle::jit
