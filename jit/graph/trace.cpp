// The untyped part of tracing: names, parameters, failures, the end of the trace.
#include "heddle/trace.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <exception>
#include <mutex>
#include <new>
#include <string>
#include <system_error>
#include <unordered_map>

#include "heddle/status.hpp"
#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"
#include "scheduler/threads/floating.hpp"
#include "scheduler/threads/process_mutex.hpp"
#include "scheduler/threads/what.hpp"

namespace heddle {
namespace {

/// A larger number behind '#' is part of the name.
constexpr std::uint64_t numbers_max = std::uint64_t{1} << 32U;

/// "mlp" for the first trace of a name in this process, then "mlp#2", ... A function named "mlp#5"
/// takes number 5 of "mlp", unless that number is used.
std::string numbered(const std::string& name) {
  static constinit sched::ProcessMutex mutex;
  // Never destroyed: other threads may trace while the process ends. Maps a name without number to
  // the highest number so far.
  static auto& traces = *new std::unordered_map<std::string, std::uint64_t>();
  std::string base = name;
  std::uint64_t asked = 1;
  if (const std::size_t at = name.rfind('#'); at != std::string::npos) {
    const char* const end = name.data() + name.size();
    std::uint64_t number = 0;
    const auto [stop, error] = std::from_chars(name.data() + at + 1, end, number);
    const bool is_number = error == std::errc() && stop == end && name[at + 1] != '0';
    if (is_number && number > 1 && number < numbers_max) {
      base.resize(at);
      asked = number;
    }
  }
  const std::lock_guard lock(mutex);
  std::uint64_t& last = traces[base];
  last = std::max(last + 1, asked);
  return last == 1 ? base : fmt::format("{}#{}", base, last);
}

/// The exception being handled, as a Status.
Status thrown() {
  Status failure;
  try {
    throw;
  } catch (const Error& error) {
    failure = error.status();
    if (failure.ok())
      failure = Status(ErrorCode::invalid_argument, "threw an Error without a failure");
  } catch (const std::bad_alloc& error) {
    failure = Status(ErrorCode::exhausted, sched::what_of(error));
  } catch (const std::exception& error) {
    failure = Status(ErrorCode::invalid_argument, sched::what_of(error));
  } catch (...) {
    failure = Status(ErrorCode::invalid_argument, "threw something that is no std::exception");
  }
  return failure;
}

/// One field for each argument.
TreeDef arguments_of(std::vector<TreeDef> arguments) {
  std::vector<std::string> names;
  for (std::size_t k = 0; k < arguments.size(); ++k) names.push_back(fmt::format("arg{}", k));
  return TreeDef(TreeKind::fields, std::move(arguments), std::move(names));
}

}  // namespace

void TracedGraph::require_arguments(std::vector<TreeDef> found) const {
  if (found.size() != arguments_.size()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("'{}' takes {} argument{}, and is given {}", name(), arguments_.size(),
                            arguments_.size() == 1 ? "" : "s", found.size()));
  }
  require_same(arguments_of(std::move(found)), arguments_,
               fmt::format("the arguments of '{}'", name()));
}

namespace tracing {

Tracer::Tracer(const TraceName& name)
    : floating_(std::make_shared<const sched::DefaultFloating>()),
      where_(name.where()),
      graph_(numbered(name.text()), name.where()) {}

Tracer::Tracer(std::string graph, std::vector<std::string> arguments,
               const std::source_location& where)
    : floating_(std::make_shared<const sched::DefaultFloating>()),
      where_(where),
      graph_(std::move(graph), where),
      names_(std::move(arguments)) {
  Inside::of(graph_)->takes_variables = true;
}

std::vector<Node> Tracer::parameters(const TreeDef& def, std::span<const ArrayType> types) {
  const std::size_t argument = arguments_.size();
  const std::string name = argument < names_.size() && !names_[argument].empty()
                               ? names_[argument]
                               : fmt::format("arg{}", argument);
  std::vector<Node> nodes;
  for (std::size_t k = 0; k < types.size(); ++k) {
    const std::string inside = def.path(k);
    const std::string path = inside.empty() ? name : fmt::format("{}/{}", name, inside);
    try {
      nodes.push_back(graph_.parameter(path, types[k], where_));
    } catch (const Error& error) {
      throw Error(error.code(),
                  fmt::format("{} of function '{}' cannot be {}{}", path, graph_.name(),
                              types[k].to_string(), jit::at(where_)),
                  error.status());
    }
  }
  used_ += types.size();
  arguments_.push_back(def);
  return nodes;
}

void Tracer::fail() const {
  const Status cause = thrown();
  const jit::GraphState& graph = *Inside::of(graph_);
  const auto last = static_cast<jit::NodeId>(graph.nodes.size() - 1);
  const bool made = graph.nodes.size() > graph.parameters.size();
  throw Error(
      Status(cause.code(),
             fmt::format("function '{}' failed in its trace{}, {}", graph.name, jit::at(where_),
                         made ? "after " + graph.show(last) : std::string("before it made a node")),
             cause)
          .with_exception(std::current_exception()));
}

TracedGraph Tracer::finish(TreeDef results, std::vector<Node> leaves) {
  jit::GraphState& graph = *Inside::of(graph_);
  const std::size_t num_results = leaves.size();
  for (const auto& use : graph.variables) {
    for (std::size_t k = 0; use.updated && k < use.nodes.size(); ++k)
      leaves.push_back(Inside::make<Node>(Inside::of(graph_), use.nodes[k]));
  }
  if (leaves.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("function '{}' returned {}, in which is no node, and so computes "
                            "nothing; return what it gives{}",
                            graph_.name(), results.to_string(), jit::at(where_)));
  }
  const auto name_of = [&](std::size_t k) {
    if (k >= num_results) return std::string("the update of a variable");
    const std::string path = results.path(k);
    return path.empty() ? std::string("the result") : fmt::format("result '{}'", path);
  };
  jit::finish_graph(graph, leaves, name_of, where_);
  return {std::move(graph_), arguments_of(std::move(arguments_)), std::move(results)};
}

}  // namespace tracing
}  // namespace heddle
