// See graph/plan.hpp.
#include "jit/graph/plan.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "jit/vector/value_cost.hpp"

namespace heddle::jit {
namespace {

/// The most steps of operations that follow one another in one expression. The steps of chains are
/// those that a compiler gets at once; recursions go no deeper than half as many.
constexpr int steps_max = 512;
constexpr int least_steps = 2, layout_steps = 8;

/// At most this many statements read their parts of one array in place.
constexpr std::size_t readers_max = 8;

constexpr NodeId nobody = ~NodeId{0};
constexpr NodeId several_nodes = nobody - 1;

/// True if nodes of this kind read an element of their operand more than once.
bool rereads(NodeKind kind) {
  return kind == NodeKind::dot || kind == NodeKind::conv || kind == NodeKind::window ||
         kind == NodeKind::gather || kind == NodeKind::scatter;
}

class KeepPlanner {
 public:
  KeepPlanner(const GraphState& graph, const std::vector<bool>& live)
      : graph_(graph),
        live_(live),
        kept_(live.size(), Keeping::none),
        computes_(live.size(), false),
        reader_(live.size(), nobody),
        alike_(live.size(), true),
        uses_(live.size(), 0),
        directions_(live.size()) {}

  std::vector<Keeping> plan() {
    for (NodeId id = 0; id < live_.size(); ++id) {
      computes_[id] = computes(id);
      directions_[id] = directions(id);
    }
    for (const NodeId id : graph_.results) kept_[id] = Keeping::tensor;
    for (const auto& [id, message] : graph_.marks) kept_[id] = Keeping::tensor;
    for (const NodeId id : graph_.keeps) kept_[id] = Keeping::memory;
    for (NodeId id = static_cast<NodeId>(live_.size()); id-- > 0;) {
      if (live_[id]) decide(id);
    }
    keep_steps();
    bound_steps();
    return std::move(kept_);
  }

 private:
  /// True if reading the node computes more than an index: the node, or a node that it reads, is an
  /// operation.
  bool computes(NodeId id) const {
    const GraphNode& node = graph_.node(id);
    if (node.kind == NodeKind::element || node.kind == NodeKind::gather) return true;
    if (!is_pointwise(node.kind)) return false;
    return std::ranges::any_of(node.args, [this](NodeId arg) { return computes_[arg]; });
  }

  /// The axes of the node along which matrices, as the node reads them, are contiguous in memory.
  [[nodiscard]] std::set<std::int64_t> directions(NodeId id) const {
    const GraphNode& node = graph_.node(id);
    if (node.kind == NodeKind::constant || node.kind == NodeKind::iota) return {};
    const bool reads_elsewhere = node.kind == NodeKind::reshape || node.kind == NodeKind::gather;
    if (!is_pointwise(node.kind) || reads_elsewhere) {
      std::vector<std::int64_t> long_axes;
      for (std::size_t axis = 0; axis < node.type.dims.size(); ++axis) {
        if (node.type.dims[axis] != 1) long_axes.push_back(static_cast<std::int64_t>(axis));
      }
      // A row or a column has no direction: either is read along memory, or as a scalar.
      if (long_axes.size() < 2) return {};
      return {long_axes.back()};
    }
    std::set<std::int64_t> found;
    for (const NodeId arg : node.args) {
      for (const std::int64_t axis : directions_[arg]) {
        if (node.kind == NodeKind::broadcast) {
          if (graph_.type(arg).dims[axis_index(axis)] != 1)
            found.insert(node.fields[0][axis_index(axis)]);
        } else if (node.kind == NodeKind::transpose) {
          found.insert(std::ranges::find(node.fields[0], axis) - node.fields[0].begin());
        } else {
          found.insert(axis);
        }
      }
    }
    return found;
  }

  /// Call after the readers, which have higher numbers, are decided.
  void decide(NodeId id) {
    const GraphNode& node = graph_.node(id);
    if (!is_pointwise(node.kind) && node.kind != NodeKind::parameter) keep(id);
    const bool again = reader_[id] == several_nodes || (uses_[id] > 1 && !alike_[id]);
    if (computes_[id] && again) keep(id);
    const NodeId statement = is_kept(id) ? id : reader_[id];
    const bool element = node.kind == NodeKind::element || node.kind == NodeKind::cast;
    for (const NodeId arg : node.args) {
      ++uses_[arg];
      reader_[arg] =
          reader_[arg] == nobody || reader_[arg] == statement ? statement : several_nodes;
      alike_[arg] = alike_[arg] && element;
      const bool grows = node.kind == NodeKind::broadcast &&
                         node.type.num_elements() != graph_.type(arg).num_elements();
      if (computes_[arg] && (grows || rereads(node.kind))) keep(arg);
      // A transpose has a schedule of its own; a reduction of two directions has none.
      const bool is_turned = directions_[arg].size() > 1 && !is_pointwise(node.kind);
      if (computes_[arg] && is_turned) keep(arg);
      // The operand of a gather is kept, since its places are computed; index arrays are read for
      // each window.
      const bool read_anywhere = node.kind == NodeKind::gather && arg == node.args[0];
      if (read_anywhere && graph_.node(arg).kind != NodeKind::parameter) keep(arg);
    }
  }

  bool is_kept(NodeId id) const { return kept_[id] != Keeping::none; }
  void keep(NodeId id) { kept_[id] = std::max(kept_[id], Keeping::tensor); }
  /// True if expressions end at the node, whatever passes do to tensors.
  bool in_memory(NodeId id) const {
    return kept_[id] == Keeping::memory || !is_pointwise(graph_.node(id).kind);
  }

  /// True if the node is a part of its first operand at a constant place.
  bool is_fixed_part(const GraphNode& node) const {
    if (node.kind == NodeKind::slice) return true;
    return node.kind == NodeKind::gather &&
           std::ranges::none_of(node.args.begin() + 1, node.args.end(), [this](NodeId arg) {
             const GraphNode& index = graph_.node(arg);
             return index.kind != NodeKind::constant || !index.type.dims.empty();
           });
  }

  /// Keeps the parts of an array that differ only in their start, one for each step of an unrolled
  /// loop. Read in place, the differing start would make every step's kernel different, and each
  /// kernel would be compiled. Parts that one statement reads, as in a stencil, count once: one
  /// kernel holds them anyway.
  void keep_steps() {
    struct Steps {
      std::vector<NodeId> parts;
      std::set<NodeId> readers;
    };
    std::map<std::pair<NodeId, Dims>, Steps> arrays;
    for (NodeId id = 0; id < live_.size(); ++id) {
      const GraphNode& node = graph_.node(id);
      if (!live_[id] || !is_fixed_part(node)) continue;
      Steps& steps = arrays[{node.args[0], node.type.dims}];
      steps.parts.push_back(id);
      steps.readers.insert(reader_[id] == several_nodes ? id : reader_[id]);
    }
    for (const auto& [of, steps] : arrays) {
      if (steps.readers.size() <= readers_max) continue;
      for (const NodeId id : steps.parts) kept_[id] = Keeping::memory;
    }
  }

  /// The steps of a pointwise node alone.
  [[nodiscard]] int own_steps(const GraphNode& node) const {
    const bool casts = node.kind == NodeKind::cast;
    if (!casts && node.kind != NodeKind::element) return layout_steps;
    std::vector<ValuePtr> args;
    for (const NodeId arg : node.args) args.push_back(make_local(0, graph_.type(arg).dtype));
    const ValuePtr value =
        casts ? make_cast(args[0], node.type.dtype) : make_op(node.op, std::move(args));
    return std::max(least_steps, own_cost(*value));
  }

  void bound_steps() {
    std::vector<int> steps(live_.size(), 0);
    for (NodeId id = 0; id < live_.size(); ++id) {
      const GraphNode& node = graph_.node(id);
      if (!live_[id] || !is_pointwise(node.kind)) continue;
      for (const NodeId arg : node.args)
        steps[id] = std::max(steps[id], in_memory(arg) ? 0 : steps[arg]);
      steps[id] += own_steps(node);
      if (steps[id] > steps_max) kept_[id] = Keeping::memory;
    }
  }

  const GraphState& graph_;
  const std::vector<bool>& live_;
  std::vector<Keeping> kept_;
  std::vector<bool> computes_;
  // the kept node whose statement reads the node; nobody, several_nodes
  std::vector<NodeId> reader_;
  std::vector<bool> alike_;  // read by elementwise operations only, hence at one place
  std::vector<int> uses_;
  std::vector<std::set<std::int64_t>> directions_;
};

}  // namespace

bool is_pointwise(NodeKind kind) noexcept {
  switch (kind) {
    case NodeKind::constant:
    case NodeKind::iota:
    case NodeKind::element:
    case NodeKind::cast:
    case NodeKind::broadcast:
    case NodeKind::reshape:
    case NodeKind::transpose:
    case NodeKind::slice:
    case NodeKind::gather:
      return true;
    default:
      return false;
  }
}

std::vector<Keeping> kept_nodes(const GraphState& graph, const std::vector<bool>& live) {
  return KeepPlanner(graph, live).plan();
}

}  // namespace heddle::jit
