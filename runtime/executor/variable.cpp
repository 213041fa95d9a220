// Variables: their use in graphs, and their arrays.
#include "heddle/variable.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <new>

#include "heddle/status.hpp"
#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"
#include "runtime/executor/variable_state.hpp"
#include "runtime/memory/array_state.hpp"
#include "scheduler/device/timeline.hpp"

namespace heddle {
namespace rt {

std::string VariableState::path(std::size_t leaf) const {
  const std::string inside = structure.path(leaf);
  return inside.empty() ? name : fmt::format("{}/{}", name, inside);
}

std::unique_lock<sched::BiasedMutex> VariableState::lock() {
  std::unique_lock lock(mutex);
  if (!mutex.is_torn()) [[likely]]
    return lock;
  throw Error(
      ErrorCode::unavailable,
      fmt::format("variable '{}': forked: a thread of the parent was at it when the process "
                  "was forked, so that its child cannot tell what is there; make another",
                  name));
}

void VariableState::set(std::vector<Array>& leaves) {
  std::vector<Event> ends;
  for (const Array& array : leaves) ends.push_back(array.event());
  set_.swap(ends);
  arrays.swap(leaves);
  // relaxed: a late update of the old arrays may set the flag again, and then recall() gives up.
  is_lost_.store(false, std::memory_order_relaxed);
  ++changes;
}

bool VariableState::recall() noexcept {
  const auto ended_badly = [](const Array& array) {
    const Event& event = Inside::of(array)->event;
    return sched::Timeline::has_ended(event) && !ended_well(event);
  };
  if (std::ranges::none_of(arrays, ended_badly)) return false;
  // relaxed: pairs with the store in lose().
  if (is_lost_.load(std::memory_order_relaxed) || !std::ranges::all_of(set_, ended_well))
    return false;
  std::vector<Array> before;
  try {
    for (const Array& array : arrays) {
      before.push_back(Inside::make<Array>(
          std::make_shared<const ArrayState>(ArrayState{array.device(), array.view(), Event()})));
    }
  } catch (const std::bad_alloc&) {
    return false;
  }
  for (const Array& array : before) {
    BufferState& buffer = *Inside::of(array.view().buffer());
    const std::lock_guard lock(*buffer.ledger);
    buffer.hazards().forget_ended();
  }
  arrays.swap(before);
  ++changes;
  return true;
}

std::vector<ArrayType> VariableState::types_of(std::span<const Array> leaves) const {
  std::vector<ArrayType> types_found;
  for (std::size_t k = 0; k < leaves.size(); ++k) {
    if (!leaves[k].defined()) {
      throw Error(ErrorCode::failed_precondition,
                  fmt::format("variable '{}': array {} of {} is an Array without a value: Array() "
                              "made it, and nothing was assigned to it",
                              name, k, leaves.size()));
    }
    types_found.push_back(leaves[k].type());
  }
  return types_found;
}

void VariableState::require_types(const TreeDef& def, std::span<const ArrayType> found,
                                  const char* what) const {
  require_same(def, structure, fmt::format("{} of variable '{}'", what, name));
  for (std::size_t k = 0; k < types.size(); ++k) {
    if (found[k] == types[k]) continue;
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} of variable '{}': '{}' is {} (expected {}, which it was made with)",
                            what, name, path(k), found[k].to_string(), types[k].to_string()));
  }
}

namespace {

jit::GraphState& state_for(const Graph& graph, const VariableState& variable) {
  jit::GraphState& state = *Inside::of(graph);
  if (!state.takes_variables || state.finished) {
    throw Error(ErrorCode::failed_precondition,
                fmt::format("variable '{}' is used in graph '{}', which {}; use variables in "
                            "functions of executors, while they are traced",
                            variable.name, state.name,
                            state.finished ? "is finished" : "no executor traces"));
  }
  return state;
}

jit::GraphState::VariableUse& variable_use(const Graph& graph,
                                           const std::shared_ptr<VariableState>& variable,
                                           const std::source_location& where) {
  jit::GraphState& state = state_for(graph, *variable);
  const auto at =
      std::ranges::find(state.variables, variable, &jit::GraphState::VariableUse::variable);
  if (at != state.variables.end()) return *at;
  jit::GraphState::VariableUse use;
  use.variable = variable;
  use.first_parameter = state.parameters.size();
  for (std::size_t k = 0; k < variable->types.size(); ++k)
    use.nodes.push_back(jit::id_of(graph.parameter(variable->path(k), variable->types[k], where)));
  return state.variables.emplace_back(std::move(use));
}

}  // namespace
}  // namespace rt

VariableBase::VariableBase(std::string name, TreeDef structure, std::vector<Array> leaves)
    : state_(std::make_shared<rt::VariableState>(std::move(name), std::move(structure),
                                                 std::move(leaves))) {
  if (state_->name.empty())
    throw Error(ErrorCode::invalid_argument, "a variable has an empty name; name it");
  if (state_->types.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("variable '{}' is made of {}, in which is no array", state_->name,
                            state_->structure.to_string()));
  }
}

const std::string& VariableBase::name() const noexcept { return state_->name; }
const TreeDef& VariableBase::structure() const noexcept { return state_->structure; }

std::vector<Node> VariableBase::read_leaves(const Graph& graph,
                                            const std::source_location& where) const {
  std::vector<Node> nodes;
  for (const jit::NodeId id : rt::variable_use(graph, state_, where).nodes)
    nodes.push_back(Inside::make<Node>(Inside::of(graph), id));
  return nodes;
}

void VariableBase::update_leaves(const Graph& graph, const TreeDef& structure,
                                 std::vector<Node> nodes, const std::source_location& where) const {
  std::vector<ArrayType> found;
  for (std::size_t k = 0; k < nodes.size(); ++k) {
    if (Inside::of(nodes[k]) != Inside::of(graph)) {
      throw Error(
          ErrorCode::invalid_argument,
          fmt::format("variable '{}' is updated by a node that is not of graph '{}'; use nodes of "
                      "this trace",
                      k < state_->types.size() ? state_->path(k) : name(), graph.name()));
    }
    found.push_back(nodes[k].type());
  }
  state_->require_types(structure, found, "the update");
  jit::GraphState::VariableUse& use = rt::variable_use(graph, state_, where);
  use.nodes.clear();
  for (const Node& node : nodes) use.nodes.push_back(jit::id_of(node));
  use.updated = true;
}

std::vector<Array> VariableBase::leaves() const {
  const auto lock = state_->lock();
  static_cast<void>(state_->recall());
  ++state_->looks;
  return state_->arrays;
}

void VariableBase::set_leaves(const TreeDef& structure, std::vector<Array> leaves) const {
  state_->require_types(structure, state_->types_of(leaves), "the new value");
  const auto lock = state_->lock();
  state_->set(leaves);
}

}  // namespace heddle
