// See executor_entry.hpp.
#include "runtime/executor_entry.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "jit/system/inside.hpp"
#include "runtime/backend_state.hpp"
#include "runtime/compiling.hpp"
#include "runtime/device_state.hpp"
#include "runtime/execution.hpp"
#include "runtime/giving.hpp"

namespace heddle::rt {
namespace {

Code compile(const GraphProgram& lowered, const std::string& name, BackendState& backend,
             CompileOptions options, const jit::CompileLimits& limits) {
  options.name = name;
  options.shared = true;
  return jit::finish(
      jit::draft_program(lowered.program, options, backend.compiler, limits, backend.codes), limits,
      spread_over(backend.compiles));
}

/// The place of a tensor in the signature.
std::optional<std::uint32_t> place(const Code& code, const Tensor& tensor) {
  const auto at = entry_of(*Inside::of(code), tensor);
  return at ? std::optional(static_cast<std::uint32_t>(*at)) : std::nullopt;
}

}  // namespace

CompiledGraph::CompiledGraph(const TracedGraph& traced_graph,
                             const std::shared_ptr<BackendState>& backend_state,
                             const CompileOptions& options, const jit::CompileLimits& limits)
    : backend(backend_state),
      traced(traced_graph),
      lowered(traced.program()),
      code(compile(lowered, traced.name(), *backend, options, limits)) {
  const std::vector<Node> nodes = traced.graph().parameters();
  for (std::size_t k = 0; k < lowered.parameters.size(); ++k) {
    const Tensor& tensor = lowered.parameters[k];
    parameters.push_back({tensor.label(), nodes[k].type(), place(code, tensor)});
  }
  const auto add = [&](const Tensor& tensor, std::string name) {
    Result result{
        std::move(name),     tensor.type(), static_cast<std::size_t>(*tensor.type().num_bytes()),
        place(code, tensor), false,         {}};
    if (result.entry)
      result.zeros = !Inside::of(code)->signature().entries[*result.entry].overwrites_whole;
    result.holder = {0, fmt::format("{} of executor graph '{}'", result.name, traced.name())};
    results.push_back(std::move(result));
  };
  for (std::size_t k = 0; k < lowered.results.size(); ++k) {
    const std::string path = traced.results().path(k);
    add(lowered.results[k], path.empty() ? "the result" : fmt::format("result '{}'", path));
  }
  for (std::size_t k = 0; k < lowered.marked.size(); ++k)
    add(lowered.marked[k], fmt::format("marked node {}", k));
}

Site::Site(std::shared_ptr<const CompiledGraph> of, const DeviceState& device, sched::Label name)
    : graph(std::move(of)),
      timeline(device.timeline->id()),
      execution(device.execution),
      loaded{graph->code, load_steps(*graph->backend, *device.execution->physical,
                                     jit::specialise(*Inside::of(graph->code), {}, {}))},
      label(name) {}

Entry::Entry(std::string entry_key, std::uint64_t key_hash, std::size_t number_of_it,
             std::shared_ptr<const CompiledGraph> compiled, const std::string& executor)
    : key(std::move(entry_key)),
      hash(key_hash),
      number(number_of_it),
      graph(std::move(compiled)),
      label(sched::Label::intern(executor)) {}

Entry::~Entry() {
  // relaxed: nobody else has it any more.
  Site* site = sites_.load(std::memory_order_relaxed);
  while (site != nullptr) {
    Site* const gone = std::exchange(site, site->next);
    if (gone->launches.let_go()) delete gone;
  }
}

Site& Entry::site_on(const DeviceState& device) {
  const std::uint64_t timeline = device.timeline->id();
  const auto find = [&]() -> Site* {
    // acquire: pairs with the release below.
    Site* site = sites_.load(std::memory_order_acquire);
    while (site != nullptr && site->timeline != timeline) site = site->next;
    return site;
  };
  if (Site* const known = find()) [[likely]]
    return *known;
  const std::lock_guard lock(mutex_);
  if (Site* const known = find()) return *known;
  auto made = std::make_unique<Site>(graph, device, label);
  // relaxed: the lock is held.
  made->next = sites_.load(std::memory_order_relaxed);
  // release: pairs with the acquire above.
  sites_.store(made.get(), std::memory_order_release);
  return *made.release();
}

}  // namespace heddle::rt
