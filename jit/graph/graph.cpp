// Graph and Node: parameters, scopes, finish(), and the queries of handles.
#include "heddle/graph.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "heddle/status.hpp"
#include "jit/describe/expr.hpp"
#include "jit/graph/called.hpp"
#include "jit/graph/lower.hpp"
#include "jit/graph/state.hpp"
#include "jit/graph/text.hpp"
#include "jit/system/inside.hpp"
#include "jit/value/element.hpp"

namespace heddle {

using jit::GraphNode;
using jit::GraphState;
using jit::NodeId;
using jit::NodeKind;

namespace {

void require_open(const GraphState& graph, NodeId id, std::string_view what,
                  std::source_location where) {
  if (!graph.finished) return;
  throw Error(ErrorCode::failed_precondition,
              fmt::format("{} of graph '{}' cannot be {} any more: the graph is finished{}",
                          graph.show(id), graph.name, what, jit::at(where)));
}

std::string require_graph_name(std::string name, std::source_location where) {
  if (!name.empty()) return name;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("a graph has no name; give it one, which its kernels and errors carry: "
                          "Graph(\"mlp\"){}",
                          jit::at(where)));
}

}  // namespace

const ArrayType& Node::type() const { return jit::graph_of(*this, "type")->type(id_); }
std::source_location Node::where() const { return jit::graph_of(*this, "where")->nodes[id_].where; }
std::string Node::scope() const {
  const GraphState& graph = *jit::graph_of(*this, "scope");
  return graph.scopes[graph.nodes[id_].scope];
}
std::string Node::to_string() const { return jit::graph_of(*this, "to_string")->show(id_); }

const Node& Node::log(std::string message, std::source_location where) const {
  GraphState& graph = *jit::graph_of(*this, "log", where);
  require_open(graph, id_, "marked", where);
  graph.marks.emplace_back(id_, std::move(message));
  return *this;
}

Node keep(const Node& x, std::source_location where) {
  GraphState& graph = *jit::graph_of(x, "keep", where);
  require_open(graph, jit::id_of(x), "kept", where);
  graph.keeps.insert(jit::id_of(x));
  return x;
}

Graph::Graph(std::string name, std::source_location where)
    : state_(std::make_shared<GraphState>(require_graph_name(std::move(name), where))) {}

Node Graph::parameter(std::string name, ArrayType type, std::source_location where) const {
  state_->require_unfinished("parameter", where);
  GraphNode node;
  node.kind = NodeKind::parameter;
  node.type = std::move(type);
  node.fields = {{static_cast<std::int64_t>(state_->parameters.size())}};
  if (name.empty()) name = fmt::format("arg{}", state_->parameters.size());
  const jit::Called call(fmt::format("parameter {}", name), where, state_);
  state_->parameter_names.push_back(std::move(name));
  try {
    const Node made = jit::make_node(state_, std::move(node), where);
    state_->parameters.push_back(jit::id_of(made));
    return made;
  } catch (...) {
    state_->parameter_names.pop_back();
    throw;
  }
}

Node Graph::scalar(const Operand& number, DType dtype) const {
  const jit::Called call("constant", number.where(), state_);
  call.require_dtype(dtype);
  return jit::operand_node(number, dtype, call);
}

Node Graph::iota(ArrayType type, std::int64_t axis, std::source_location where) const {
  const jit::Called call("iota", where, state_);
  GraphNode node;
  node.kind = NodeKind::iota;
  node.fields = {{jit::axis_of(type, axis, call)}};
  node.type = std::move(type);
  return jit::make_node(state_, std::move(node), where);
}

Graph::Scope::Scope(const Graph& graph, std::string_view name) : state_(graph.state_) {
  // Any thread may use a finished graph, which takes no new nodes that could have a scope.
  if (name.empty() || state_->finished) return;
  const std::string& outer = state_->scopes[state_->scope()];
  const std::uint32_t path =
      state_->scope_at(outer.empty() ? std::string(name) : fmt::format("{}/{}", outer, name));
  state_->open_scopes.emplace_back(this, path);
}
Graph::Scope::~Scope() {
  if (state_->finished) return;
  std::erase_if(state_->open_scopes, [this](const auto& open) { return open.first == this; });
}

const Graph& Graph::finish(std::vector<Node> results, std::source_location where) const {
  jit::finish_graph(
      *state_, results, [](std::size_t k) { return fmt::format("result {}", k); }, where);
  return *this;
}

const std::string& Graph::name() const noexcept { return state_->name; }
bool Graph::finished() const noexcept { return state_->finished; }
std::size_t Graph::num_nodes() const noexcept { return state_->nodes.size(); }

std::vector<Node> Graph::parameters() const {
  std::vector<Node> nodes;
  for (const NodeId id : state_->parameters) nodes.push_back(Inside::make<Node>(state_, id));
  return nodes;
}
std::vector<Node> Graph::results() const {
  std::vector<Node> nodes;
  for (const NodeId id : state_->results) nodes.push_back(Inside::make<Node>(state_, id));
  return nodes;
}

namespace {

const GraphState& finished_state(const std::shared_ptr<GraphState>& state, const char* what) {
  if (state->finished) return *state;
  throw Error(ErrorCode::failed_precondition,
              fmt::format("graph '{}' is not finished: it has no {} yet; call finish() with its "
                          "results",
                          state->name, what));
}

}  // namespace

std::string Graph::to_string() const {
  return jit::print_graph(finished_state(state_, "text"), true);
}
std::string Graph::hash() const { return jit::hash_graph(finished_state(state_, "hash")); }
Graph Graph::parse(std::string_view text, std::string name, std::source_location where) {
  return Graph(jit::parse_graph(text, require_graph_name(std::move(name), where)));
}
GraphProgram Graph::program() const { return jit::lower_graph(finished_state(state_, "program")); }

}  // namespace heddle
