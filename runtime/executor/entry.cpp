// See runtime/executor/entry.hpp.
#include "runtime/executor/entry.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "jit/graph/state.hpp"
#include "jit/system/inside.hpp"
#include "runtime/device/backend_state.hpp"
#include "runtime/device/device_state.hpp"
#include "runtime/device/execution.hpp"
#include "runtime/device/inherited_uses.hpp"
#include "runtime/executor/variable_state.hpp"
#include "runtime/launch/parts.hpp"
#include "runtime/tune/programs.hpp"

namespace heddle::rt {
namespace {

Code compile(const GraphProgram& lowered, const std::string& name,
             const std::shared_ptr<BackendState>& backend, CompileOptions options,
             const jit::CompileLimits& limits) {
  options.name = name;
  options.shared = true;
  return compile_program(backend, lowered.program, options, limits);
}

std::vector<std::string> texts_of(const CompiledGraph& graph, sched::Label executor) {
  std::vector<std::string> texts;
  for (const CompiledGraph::Result& result : graph.results) {
    texts.push_back(fmt::format("to executor '{}', where {} has its memory now; use that",
                                executor.c_str(), result.name));
  }
  return texts;
}

/// The index of a tensor's entry in the signature.
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
      code(compile(lowered, traced.name(), backend, options, limits)) {
  const jit::GraphState& graph = *Inside::of(traced.graph());
  num_function_results = traced.results().num_leaves();
  num_arguments = traced.arguments().num_leaves();
  for (std::size_t k = 0; k < lowered.parameters.size(); ++k) {
    const ArrayType& type = graph.type(graph.parameters[k]);
    parameters.push_back({graph.parameter_names[k], type,
                          static_cast<std::size_t>(*type.num_bytes()),
                          place(code, lowered.parameters[k]), false});
  }
  for (std::size_t k = 0; k < num_function_results; ++k) {
    const std::string path = traced.results().path(k);
    add_result(lowered.results[k], path.empty() ? "the result" : fmt::format("result '{}'", path));
  }
  std::vector<bool> is_variable(parameters.size());
  for (const auto& use : graph.variables) {
    auto variable = std::static_pointer_cast<VariableState>(use.variable);
    VariableUse made{variable, use.first_parameter, std::nullopt};
    if (use.updated) made.first_result = results.size();
    for (std::size_t k = 0; k < variable->types.size(); ++k) {
      is_variable[use.first_parameter + k] = true;
      if (!use.updated) continue;
      parameters[use.first_parameter + k].update = results.size();
      add_result(lowered.results[results.size()], fmt::format("variable '{}'", variable->path(k)));
    }
    locked.push_back(variable.get());
    variables.push_back(std::move(made));
  }
  std::ranges::sort(locked, std::less<>());
  for (VariableUse& use : variables) {
    const auto at = std::ranges::find(locked, use.variable.get());
    use.lock = static_cast<std::size_t>(at - locked.begin());
  }
  for (std::size_t k = num_arguments; k < parameters.size(); ++k) {
    if (!is_variable[k]) sides.push_back(k);
  }
  for (std::size_t k = 0; k < lowered.marked.size(); ++k)
    add_mark(k, Inside::make<Node>(Inside::of(traced.graph()), graph.marks[k].first));
  add_hidden();
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    for (std::size_t r = 0; r < results.size() && !parameters[k].may_be_taken; ++r)
      parameters[k].may_be_taken = may_take(r, k);
    if (const auto& update = parameters[k].update)
      parameters[k].updated_in_place = may_take(*update, k);
  }
}

bool CompiledGraph::may_take(std::size_t result, std::size_t parameter) const noexcept {
  const auto &from = parameters[parameter].entry, &to = results[result].entry;
  return from && to && results[result].bytes > 0 &&
         Inside::of(code)->signature().may_take(*to, *from);
}

/// Adds tensors that are neither parameters nor results but are stored, such as tensors without
/// elements that nothing assigns. Calls allocate memory for these tensors.
void CompiledGraph::add_hidden() {
  const jit::CodeData& data = *Inside::of(code);
  std::vector<bool> known(data.signature().entries.size());
  for (const Parameter& each : parameters) {
    if (each.entry) known[*each.entry] = true;
  }
  for (const Result& each : results) {
    if (each.entry) known[*each.entry] = true;
  }
  for (std::size_t entry = 0; entry < known.size(); ++entry) {
    if (is_stored(data, entry) && !known[entry])
      add_result(*data.tensor(entry), fmt::format("inner '{}'", data.label(entry)));
  }
}

void CompiledGraph::add_result(const Tensor& tensor, std::string result_name) {
  Result result{
      std::move(result_name), tensor.type(), static_cast<std::size_t>(*tensor.type().num_bytes()),
      place(code, tensor),    false,         {}};
  if (result.entry && result.bytes > 0)
    result.zeros = !Inside::of(code)->signature().entries[*result.entry].overwrites_whole;
  result.holder = {0, fmt::format("{} of graph '{}'", result.name, traced.name())};
  results.push_back(std::move(result));
}

/// Adds a marked node. A marked result, or a node that was marked before, keeps its number.
void CompiledGraph::add_mark(std::size_t k, const Node& node) {
  const Tensor& tensor = lowered.marked[k];
  const auto position = [&](std::span<const Tensor> list) {
    return static_cast<std::size_t>(std::ranges::find(list, tensor) - list.begin());
  };
  const std::size_t before = position(std::span(lowered.marked).first(k));
  std::size_t number = position(lowered.results);
  if (before < k) {
    number = marks.results[before];
  } else if (number == lowered.results.size()) {
    number = results.size();
    add_result(tensor, fmt::format("marked node {}", node.to_string()));
  }
  marks.results.push_back(number);
  marks.messages.push_back(lowered.messages[k]);
  marks.nodes.push_back(node.to_string());
}

Site::Site(std::shared_ptr<const CompiledGraph> of, const std::shared_ptr<DeviceState>& on,
           sched::Label name)
    : graph(std::move(of)),
      timeline(on->timeline->id()),
      device(on),
      execution(on->execution),
      loaded(load(*graph->backend, *execution, graph->code,
                  jit::specialise(*Inside::of(graph->code), {}, {}))),
      label(name),
      scratch(execution->scratch.take(
          *execution, scratch_bytes(*execution, *Inside::of(graph->code)->core),
          fmt::format("the scratch of graph '{}'", graph->traced.name()))),
      is_plain(!execution->queue->runs_ahead() &&
               std::ranges::none_of(graph->results, &CompiledGraph::Result::zeros)),
      small(small_buffers()),
      taken_texts(texts_of(*graph, name)),
      freed_text(fmt::format("to executor '{}', where no result fits its memory; pass it without "
                             "donate()",
                             name.c_str())) {
  for (std::size_t k = 0; k < graph->results.size(); ++k)
    cells.emplace_back(new ResultCells(execution->memory));
}

std::optional<SmallBuffers> Site::small_buffers() const {
  if (!is_plain || !loaded.single || scratch != nullptr) return {};
  const auto& kernel = std::get<jit::KernelStep>(loaded.steps[0].step);
  if (kernel.entries.size() > SmallBuffers::max) return {};
  SmallBuffers made;
  for (const std::uint32_t entry : kernel.entries) {
    const auto add = [&](const auto& list, bool result) {
      const auto at = std::ranges::find(list, std::optional(entry),
                                        [](const auto& each) { return each.entry; });
      if (at == list.end()) return;
      made.buffers[made.num_buffers++] = {result, static_cast<std::uint32_t>(at - list.begin()),
                                          at->bytes};
    };
    add(graph->parameters, false);
    add(graph->results, true);
  }
  return made.num_buffers == kernel.entries.size() ? std::optional(made) : std::nullopt;
}

Entry::Entry(std::string entry_key, std::uint64_t key_hash, std::size_t number_of_it,
             std::shared_ptr<const CompiledGraph> compiled, const std::string& executor)
    : key(std::move(entry_key)),
      hash(key_hash),
      number(number_of_it),
      graph(std::move(compiled)),
      label(sched::Label::intern(executor)) {}

void LetSiteGo::operator()(Site* site) const noexcept {
  if (is_torn(*site->execution->ledger, site->launches)) return;
  if (site->launches.let_go()) delete site;
}

Entry::~Entry() {
  // relaxed: no other thread has the entry any more.
  Site* site = sites_.load(std::memory_order_relaxed);
  while (site != nullptr) {
    const SiteOwner gone(site);
    // relaxed: as above.
    site = gone->next.load(std::memory_order_relaxed);
  }
}

bool Entry::is_over() const noexcept {
  // relaxed: a late view of the flag does not matter.
  return graph->backend->finalized.load(std::memory_order_relaxed);
}

Site* Entry::find_site(std::uint64_t timeline) const noexcept {
  // seq_cst: pairs with the stores in add_site() and drop_gone(), see Visits.
  Site* site = sites_.load(std::memory_order_seq_cst);
  while (site != nullptr && site->timeline != timeline)
    site = site->next.load(std::memory_order_seq_cst);  // seq_cst: the same
  return site;
}

Site& Entry::add_site(const std::shared_ptr<DeviceState>& device,
                      const std::function<void(SiteOwner)>& retire) {
  const std::lock_guard lock(mutex_);
  if (Site* const known = find_site(device->timeline->id())) return *known;
  SiteOwner made(new Site(graph, device, label));
  drop_gone(retire);
  // relaxed: the lock is held; no other thread knows the new site.
  made->next.store(sites_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  // seq_cst: pairs with the load in find_site(), see Visits.
  sites_.store(made.get(), std::memory_order_seq_cst);
  return *made.release();
}

/// Unlinks the sites of removed devices. Under the lock. Readers at an unlinked site go on from
/// there.
void Entry::drop_gone(const std::function<void(SiteOwner)>& retire) {
  for (std::atomic<Site*>* link = &sites_;;) {
    // relaxed: the lock is held.
    Site* const site = link->load(std::memory_order_relaxed);
    if (site == nullptr) return;
    if (!site->device.expired()) {
      link = &site->next;
      continue;
    }
    // seq_cst: pairs with the load in find_site(), see Visits; relaxed: the lock is held.
    link->store(site->next.load(std::memory_order_relaxed), std::memory_order_seq_cst);
    retire(SiteOwner(site));
  }
}

}  // namespace heddle::rt
