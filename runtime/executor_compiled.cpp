// What is told of a function that an executor compiled.
#include <fmt/format.h>

#include "heddle/executor.hpp"
#include "jit/code/code.hpp"
#include "jit/loop/cost.hpp"
#include "jit/system/inside.hpp"
#include "runtime/executor_entry.hpp"

namespace heddle::executors {

const std::string& CompiledBase::name() const noexcept {
  return Inside::of(entry_)->graph->traced.name();
}

ExecutorGraph CompiledBase::graph() const {
  const rt::Entry& entry = *Inside::of(entry_);
  return {entry.graph->traced, entry.graph->code, entry.trace_time, entry.compile_time};
}

std::string CompiledBase::signature() const {
  const rt::CompiledGraph& graph = *Inside::of(entry_)->graph;
  const jit::Signature& signature = Inside::of(graph.code)->signature();
  std::string text;
  for (const auto& parameter : graph.parameters) {
    text += fmt::format("{}: {}{}\n", parameter.name, parameter.type.to_string(),
                        parameter.entry ? "" : ", unused");
  }
  for (const auto& result : graph.results) {
    std::string takes;
    for (const auto& parameter : graph.parameters) {
      if (result.entry && parameter.entry && signature.may_take(*result.entry, *parameter.entry))
        takes += fmt::format("{}{}", takes.empty() ? ", may have the memory of " : " or ",
                             parameter.name);
    }
    text += fmt::format("-> {}: {}{}\n", result.name, result.type.to_string(), takes);
  }
  return text;
}

std::string CompiledBase::text() const { return Inside::of(entry_)->graph->code.loop_text(); }

CompiledCost CompiledBase::cost() const {
  const jit::LoopCost cost =
      jit::cost_of(Inside::of(Inside::of(entry_)->graph->code)->core->scheduled.loop);
  return {cost.operations, cost.bytes_read, cost.bytes_written};
}

CompiledMemory CompiledBase::memory() const {
  const rt::CompiledGraph& graph = *Inside::of(entry_)->graph;
  const jit::CodeData& code = *Inside::of(graph.code);
  CompiledMemory memory;
  for (const auto& parameter : graph.parameters) memory.arguments += parameter.bytes;
  for (const auto& result : graph.results) memory.results += result.bytes;
  memory.scratch = code.core->scratch.bytes;
  std::vector<bool> taken(graph.results.size());
  for (const auto& parameter : graph.parameters) {
    for (std::size_t r = 0; parameter.entry && r < graph.results.size(); ++r) {
      const auto& result = graph.results[r];
      if (taken[r] || !result.entry || !code.signature().may_take(*result.entry, *parameter.entry))
        continue;
      taken[r] = true;
      memory.reusable += result.bytes;
      break;
    }
  }
  return memory;
}

}  // namespace heddle::executors
