// Calls of loggers about marked nodes, and the search for NaN and infinity.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <exception>
#include <limits>
#include <map>
#include <string_view>
#include <utility>

#include "heddle/status.hpp"
#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"
#include "runtime/executor/state.hpp"

namespace heddle {
namespace {

constexpr std::string_view full_prefix = "#full ";
/// The mark of nodes that nan_check added.
constexpr std::string_view check_mark = "#nan_check";

std::string shown(const Array& value, bool whole) {
  try {
    const HostArray host = value.to_host();
    return whole ? render_array(host.type(), host.data(), std::numeric_limits<int>::max())
                 : render_array(host.type(), host.data());
  } catch (const Error& error) {
    return error.what();
  }
}

struct DefaultNodeLogger {
  void operator()(const LoggedNodes& logged) const {
    if (logged.messages.empty()) return;
    std::string text = fmt::format("graph '{}':\n", logged.graph.name());
    for (std::size_t k = 0; k < logged.messages.size(); ++k) {
      std::string_view message = logged.messages[k];
      const bool whole = message.starts_with(full_prefix);
      if (whole) message.remove_prefix(full_prefix.size());
      text +=
          fmt::format("{}: {} =\n{}\n", message, logged.nodes[k], shown(logged.values[k], whole));
    }
    std::fputs(text.c_str(), stderr);  // a single write
  }
};

/// The test for an element. NaN comes first, as infinities elsewhere may have caused the NaN.
using IsStrange = bool (*)(double);
constexpr IsStrange is_nan = [](double value) { return std::isnan(value); };
constexpr IsStrange is_infinite = [](double value) { return std::isinf(value); };

/// Number of strange elements, and the index of the first.
struct Strange {
  std::int64_t count = 0, first = 0;
};
Strange strange_in(const HostArray& values, IsStrange is_strange) {
  Strange found;
  for (std::int64_t k = values.num_elements(); k-- > 0;) {
    if (!is_strange(values.at(k))) continue;
    ++found.count;
    found.first = k;
  }
  return found;
}

std::string indices_of(std::int64_t element, const Dims& dims) {
  std::string text;
  for (std::size_t axis = dims.size(); axis-- > 0; element /= dims[axis])
    text = fmt::format("{}{}{}", element % dims[axis], text.empty() ? "" : ",", text);
  return "[" + text + "]";
}

}  // namespace

NodeLogger default_node_logger() { return DefaultNodeLogger(); }

NodeLogger chain(NodeLogger first, NodeLogger second) {
  return [first = std::move(first), second = std::move(second)](const LoggedNodes& logged) {
    if (first) first(logged);
    if (second) second(logged);
  };
}

namespace rt {

bool is_default(const NodeLogger& logger) noexcept {
  return logger.target<DefaultNodeLogger>() != nullptr;
}

void mark_floats(const TracedGraph& traced) {
  jit::GraphState& graph = *Inside::of(traced.graph());
  const std::vector<bool> live = graph.live();
  for (std::size_t id = 0; id < live.size(); ++id) {
    if (live[id] && is_floating(graph.type(static_cast<jit::NodeId>(id)).dtype))
      graph.marks.emplace_back(static_cast<jit::NodeId>(id), std::string(check_mark));
  }
}

HostArray ExecutorState::values_of(const Array& node, const CompiledGraph& graph) const try {
  return node.to_host();
} catch (const Error& error) {
  throw Error(error.code(),
              fmt::format("executor '{}', graph '{}': nan_check cannot read the nodes of a call "
                          "that was launched; call it without nan_check, or outside of tasks of "
                          "its device",
                          name(), graph.traced.name()),
              error.status());
}

void ExecutorState::tell(const CompiledGraph& graph, std::span<const Array> marked) const {
  const CompiledGraph::Marks& marks = graph.marks;
  const auto end = std::ranges::find(marks.messages, check_mark);
  const auto count = static_cast<std::size_t>(end - marks.messages.begin());
  if (options.logger) {
    try {
      options.logger({graph.traced.graph(), std::span(marks.messages).first(count),
                      std::span(marks.nodes).first(count), marked.first(count)});
    } catch (...) {
      const Status cause = executors::caught();
      throw Error(Status(cause.code(),
                         fmt::format("executor '{}', graph '{}': its logger failed; the call was "
                                     "launched",
                                     name(), graph.traced.name()),
                         cause)
                      .with_exception(std::current_exception()));
    }
  }
  check_results(graph, marked, count);
}

/// The nodes from number `first` on are floats. A strange value that no result shows is ignored:
/// the exp() in a sigmoid may be infinite. Constants are ignored too, as the user chose the values.
void ExecutorState::check_results(const CompiledGraph& graph, std::span<const Array> marked,
                                  std::size_t first) const {
  const jit::GraphState& state = *Inside::of(graph.traced.graph());
  std::map<jit::NodeId, const Array*> values;
  for (std::size_t k = first; k < marked.size(); ++k) {
    const jit::NodeId id = state.marks[k].first;
    if (state.node(id).kind != jit::NodeKind::constant) values.emplace(id, &marked[k]);
  }
  for (const IsStrange is_strange : {is_nan, is_infinite}) {
    const auto shows = [&](jit::NodeId id) {
      const auto value = values.find(id);
      return value != values.end() &&
             strange_in(values_of(*value->second, graph), is_strange).count > 0;
    };
    const auto result = std::ranges::find_if(state.results, shows);
    if (result == state.results.end()) continue;
    jit::NodeId id = *result;
    for (bool is_first = false; !is_first;) {
      const auto& args = state.node(id).args;
      const auto from = std::ranges::find_if(args, shows);
      is_first = from == args.end();
      if (!is_first) id = *from;
    }
    const HostArray host = values_of(*values.at(id), graph);
    const Strange found = strange_in(host, is_strange);
    const std::string& scope = state.scopes[state.nodes[id].scope];
    throw Error(ErrorCode::failed_precondition,
                fmt::format("executor '{}', graph '{}': {}{} is the first node with a NaN or an "
                            "infinity: {} of {} elements, the first at {}, {}",
                            name(), graph.traced.name(), state.show(id),
                            scope.empty() ? "" : fmt::format(" in '{}'", scope), found.count,
                            host.num_elements(), indices_of(found.first, host.type().dims),
                            host.at(found.first)));
  }
}

}  // namespace rt
}  // namespace heddle
