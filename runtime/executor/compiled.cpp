// Facts about a function that an executor compiled: signature, text, cost, memory.
#include <fmt/format.h>

#include "heddle/executor.hpp"
#include "jit/code/code.hpp"
#include "jit/loop/cost.hpp"
#include "jit/system/inside.hpp"
#include "runtime/executor/donation.hpp"

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
  std::string text;
  for (const auto& parameter : graph.parameters) {
    text += fmt::format("{}: {}{}\n", parameter.name, parameter.type.to_string(),
                        parameter.entry ? "" : ", unused");
  }
  for (std::size_t r = 0; r < graph.results.size(); ++r) {
    std::string takes;
    for (std::size_t k = 0; k < graph.parameters.size(); ++k) {
      if (graph.may_take(r, k))
        takes += fmt::format("{}{}", takes.empty() ? ", may have the memory of " : " or ",
                             graph.parameters[k].name);
    }
    text += fmt::format("-> {}: {}{}\n", graph.results[r].name, graph.results[r].type.to_string(),
                        takes);
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
  rt::Donation donation(graph);
  for (std::size_t k = 0; k < graph.parameters.size(); ++k) {
    const rt::Gift& gift = donation.give(k);
    if (gift.result != rt::Gift::no_result) memory.reusable += graph.results[gift.result].bytes;
  }
  return memory;
}

}  // namespace heddle::executors
