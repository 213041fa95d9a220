// Why arguments of other types are refused, and how they differ from what is compiled.
#include <fmt/format.h>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/backend_state.hpp"
#include "runtime/executor_key.hpp"
#include "runtime/executor_state.hpp"

namespace heddle::rt {

/// Of what was compiled before: the arguments are to be of the types that it was compiled for.
void ExecutorState::check_types(const Entry& entry, const executors::Arguments& arguments) const {
  const ExecutorKey key(arguments, entry.graph->backend.get(), false);
  if (ExecutorKey::types_in(key.bytes()) == ExecutorKey::types_in(entry.key)) return;
  const CompiledGraph& graph = *entry.graph;
  const std::size_t given = arguments.leaves().size();
  const std::string what = fmt::format("executor '{}', graph '{}'", name(), graph.traced.name());
  if (given != graph.num_arguments) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: compiled for {} arrays, but called with {}", what,
                            graph.num_arguments, given));
  }
  constexpr std::size_t shown = 5;
  std::string text;
  std::size_t wrong = 0;
  for (std::size_t k = 0; k < given; ++k) {
    const ArrayType type = type_of(arguments.leaves()[k]);
    if (type == graph.parameters[k].type) continue;
    if (wrong++ < shown) {
      text += fmt::format("{}argument {} of {}, '{}': compiled for {}, called with {}",
                          text.empty() ? "" : "; ", k, given, graph.parameters[k].name,
                          graph.parameters[k].type.to_string(), type.to_string());
    }
  }
  if (wrong == 0) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: called with another structure than {}, which it was compiled for",
                            what, graph.traced.arguments().to_string()));
  }
  throw Error(
      ErrorCode::invalid_argument,
      fmt::format("{}: {} differ{} from what it was compiled for: {}", what,
                  wrong > shown ? fmt::format("the first {} of {} arguments that", shown, wrong)
                  : wrong == 1  ? "1 argument"
                                : fmt::format("{} arguments", wrong),
                  wrong == 1 ? "s" : "", text));
}

Error ExecutorState::full(const Wanted& wanted,
                          const std::vector<std::shared_ptr<Entry>>& entries) const {
  // The closest one: of as many leaves, with the fewest types that differ.
  const CompiledGraph* closest = nullptr;
  std::size_t fewest = wanted.types.size() + 1;
  const auto differs = [&](const CompiledGraph& graph, std::size_t k) {
    return graph.parameters[k].type != wanted.types[k];
  };
  for (const auto& entry : entries) {
    const CompiledGraph& graph = *entry->graph;
    if (graph.num_arguments != wanted.types.size()) continue;
    std::size_t count = 0;
    for (std::size_t k = 0; k < wanted.types.size(); ++k) count += differs(graph, k) ? 1 : 0;
    if (count >= fewest) continue;
    fewest = count;
    closest = &graph;
  }
  std::string how;
  for (std::size_t k = 0; closest != nullptr && k < wanted.types.size(); ++k) {
    if (!differs(*closest, k)) continue;
    how += fmt::format("{}argument {} '{}': {}, compiled for {}", how.empty() ? ": " : ", ", k,
                       closest->parameters[k].name, wanted.types[k].to_string(),
                       closest->parameters[k].type.to_string());
  }
  return Error(
      ErrorCode::exhausted,
      fmt::format("executor '{}' has as many graphs as its cache_max, {}, and is called with "
                  "arguments of {}{}; pad arguments to a few sizes (padded()), raise "
                  "ExecutorOptions::cache_max, or have what was called least recently dropped "
                  "(CacheFull::drop_least_recent)",
                  name(), *options.cache_max,
                  how.empty()
                      ? "another structure, for another backend, or large ones that are donated"
                      : "other types",
                  how));
}

}  // namespace heddle::rt
