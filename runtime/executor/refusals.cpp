// Errors for arguments of unexpected types: how the arguments differ from the compiled types.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "heddle/status.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/executor/key.hpp"
#include "runtime/executor/state.hpp"

namespace heddle::rt {

/// Checks that the arguments have the types for which the entry was compiled.
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
  std::vector<std::string> wrong;
  for (std::size_t k = 0; k < given; ++k) {
    const ArrayType type = type_of(arguments.leaves()[k]);
    if (type == graph.parameters[k].type) continue;
    wrong.push_back(fmt::format("argument {} of {}, '{}': compiled for {}, called with {}", k,
                                given, graph.parameters[k].name,
                                graph.parameters[k].type.to_string(), type.to_string()));
  }
  if (wrong.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{}: called with another structure than {}, which it was compiled for",
                            what, graph.traced.arguments().to_string()));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("{}: {} argument{} from what it was compiled for: {}", what, wrong.size(),
                          wrong.size() == 1 ? " differs" : "s differ", first_few(wrong, "; ")));
}

Error ExecutorState::full(const Wanted& wanted,
                          const std::vector<std::shared_ptr<Entry>>& entries) const {
  // The closest entry: as many leaves, and the fewest different types; otherwise the last entry.
  const Entry* closest = entries.back().get();
  std::vector<std::string> types;
  bool found = false;
  for (const auto& entry : entries) {
    const CompiledGraph& graph = *entry->graph;
    if (graph.num_arguments != wanted.types.size()) continue;
    std::vector<std::string> differ;
    for (std::size_t k = 0; k < wanted.types.size(); ++k) {
      const CompiledGraph::Parameter& parameter = graph.parameters[k];
      if (parameter.type == wanted.types[k]) continue;
      differ.push_back(fmt::format("argument {} '{}': {}, compiled for {}", k, parameter.name,
                                   wanted.types[k].to_string(), parameter.type.to_string()));
    }
    if (found && differ.size() >= types.size()) continue;
    found = true;
    closest = entry.get();
    types = std::move(differ);
  }
  const CompiledGraph& graph = *closest->graph;
  std::string how;
  if (found && !types.empty()) {
    how = "with arguments of other types: " + first_few(types, ", ") +
          "; pad arguments to a few sizes (padded())";
  } else if (found && ExecutorKey::types_in(closest->key) == ExecutorKey::types_in(wanted.key)) {
    how = wanted.is_in_place ? "with large arguments that are donated; compile() it ahead, for both"
                             : "with large arguments that are not donated, as they were before; "
                               "compile() it ahead, for both";
  } else if (graph.backend != wanted.backend) {
    how = fmt::format("on a device of backend '{}', after one of '{}'; make an executor for each",
                      wanted.backend->spec.name, graph.backend->spec.name);
  } else {
    how = fmt::format("with another structure than {}; give it one structure",
                      graph.traced.arguments().to_string());
  }
  return Error(ErrorCode::exhausted,
               fmt::format("executor '{}' has as many graphs as its cache_max, {}, and is called "
                           "{}, raise ExecutorOptions::cache_max, or have what was called least "
                           "recently dropped (CacheFull::drop_least_recent)",
                           name(), *options.cache_max, how));
}

std::string first_few(const std::vector<std::string>& texts, const char* between) {
  constexpr std::size_t shown = 5;
  std::string text =
      fmt::format("{}", fmt::join(std::span(texts).first(std::min(shown, texts.size())), between));
  if (texts.size() > shown) text += fmt::format("{}and {} more", between, texts.size() - shown);
  return text;
}

}  // namespace heddle::rt
