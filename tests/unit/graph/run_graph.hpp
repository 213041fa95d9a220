// Runs a graph's program without a compiler: its loops, interpreted. One thread.
#pragma once

#include <vector>

#include "heddle/graph.hpp"
#include "heddle/host_array.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/loop_interpreter.hpp"

namespace heddle::jit::testing {

/// A graph's program, lowered; `optimized` or as it is; then scheduled, where there is a `target`.
struct GraphRun {
  GraphProgram program;
  Lowered lowered;
  std::vector<HostArray> arrays;  ///< by buffer

  GraphRun(const Graph& graph, const std::vector<HostArray>& arguments, bool optimized,
           const Target* target = nullptr)
      : program(graph.program()), lowered(lower(program.program)) {
    if (optimized) lowered = optimize(std::move(lowered));
    if (target != nullptr) lowered = schedule(std::move(lowered), *target);
    const Signature signature = make_signature(lowered);
    for (std::size_t k = 0; k < lowered.loop.buffers.size(); ++k) {
      const BufferDecl& buffer = lowered.loop.buffers[k];
      HostArray array(buffer.type);
      // What a kernel finds where it is said to overwrite all.
      if (buffer.role == Role::scratch || signature.entries[k].overwrites_whole) {
        for (std::int64_t n = 0; n < array.num_elements(); ++n) array.set(n, 77);
      }
      if (k < lowered.tensors.size()) {
        for (std::size_t p = 0; p < program.parameters.size(); ++p) {
          if (program.parameters[p] == lowered.tensors[k]) array = arguments[p];
        }
      }
      arrays.push_back(std::move(array));
    }
  }

  void run() { interpret(lowered.loop, arrays); }

  /// And then what is marked, as interpret().
  [[nodiscard]] std::vector<HostArray> results() const {
    std::vector<HostArray> arrays_of_results;
    for (std::size_t n = 0; n < program.results.size(); ++n) arrays_of_results.push_back(result(n));
    for (const Tensor& marked : program.marked) arrays_of_results.push_back(array_of(marked));
    return arrays_of_results;
  }
  [[nodiscard]] HostArray result(std::size_t n) const { return array_of(program.results[n]); }
  [[nodiscard]] HostArray array_of(const Tensor& tensor) const {
    for (std::size_t k = 0; k < lowered.tensors.size(); ++k) {
      if (lowered.tensors[k] == tensor) return arrays[k];
    }
    throw std::logic_error("a result that no buffer holds");
  }
};

[[nodiscard]] inline std::vector<HostArray> run_graph(const Graph& graph,
                                                      const std::vector<HostArray>& arguments,
                                                      bool optimized = true) {
  GraphRun run(graph, arguments, optimized);
  run.run();
  return run.results();
}

}  // namespace heddle::jit::testing
