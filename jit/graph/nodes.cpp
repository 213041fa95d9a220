// The kinds of nodes, by name. The types of nodes: graph/types.cpp.
#include "jit/graph/nodes.hpp"

namespace heddle::jit {
namespace {

/// Never destroyed: functions may be traced during exit.
const std::vector<KindInfo>& kinds() {
  static const auto& table = *new std::vector<KindInfo>{
      {"parameter", 0, {"index"}},
      {"constant", 0, {}},
      {"iota", 0, {"axis"}},
      {"element", any_arity, {}},
      {"cast", 1, {}},
      {"broadcast", 1, {"axes"}},
      {"reshape", 1, {}},
      {"transpose", 1, {"axes"}},
      {"slice", 1, {"start", "step"}},
      {"concatenate", any_arity, {"axis"}},
      {"pad", 2, {"low", "high", "interior"}},
      {"dot", 2, {"batch_a", "batch_b", "contract_a", "contract_b"}},
      {"reduce", 1, {"axes"}},
      {"cumulate", 1, {"axis", "reverse"}},
      {"window", 1, {"size", "step", "dilation"}},
      {"conv", 2, {"step", "dilation"}},
      {"gather", any_arity, {"axes", "sizes"}},
      {"scatter", any_arity, {"axes"}},
      {"sorted", 1, {}},
      {"order", any_arity, {"axis"}},
  };
  return table;
}

}  // namespace

const KindInfo& kind_info(NodeKind kind) noexcept {
  return kinds()[static_cast<std::size_t>(kind)];
}
std::span<const KindInfo> all_kinds() noexcept { return kinds(); }

bool has_op(NodeKind kind) noexcept {
  return kind == NodeKind::element || kind == NodeKind::reduce || kind == NodeKind::cumulate ||
         kind == NodeKind::window || kind == NodeKind::scatter;
}

std::string_view title(const GraphNode& node) noexcept {
  return node.kind == NodeKind::element ? op_info(node.op).name : kind_info(node.kind).name;
}

}  // namespace heddle::jit
