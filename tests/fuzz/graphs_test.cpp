// Random graphs through every stage and both compilers, against an interpreter of their nodes:
// every bit. Kernels are cut everywhere, at ten nodes and nowhere; those that are scheduled, which
// may move sums, against their own loops. HEDDLE_TEST_SEEDS and HEDDLE_TEST_SEED as in
// fuzz_test.cpp, but for one graph in place of five programs, as each is compiled thrice; and
// a tenth of that under sanitizers.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "jit/loop/text.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/toolchain/compiler.hpp"
#include "support/graph_interpreter.hpp"
#include "support/random_graph.hpp"
#include "support/random_program.hpp"
#include "support/seeds.hpp"
#include "unit/graph/run_graph.hpp"
#include "unit/jit_compile/kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::uint64_t graphs_per_unit = 50;
constexpr std::size_t nodes_max[] = {1, 10, uncut};

struct GraphSubject {
  std::uint64_t seed;
  Graph graph;
  std::vector<HostArray> arguments, wanted;
  Lowered lowered;
  /// For each of `nodes_max`; and the number of its first kernel in the unit.
  std::vector<std::pair<std::vector<KernelPart>, std::size_t>> cuts;
};

/// One of two is scheduled.
GraphRun fresh_run(std::uint64_t seed, const Graph& graph,
                   const std::vector<HostArray>& arguments) {
  const Target target = native_target();
  return {graph, arguments, true, seed % 2 == 0 ? nullptr : &target};
}

GraphSubject graph_subject(std::uint64_t seed) {
  Graph graph = random_graph(seed, 2 + static_cast<int>(seed % 24));
  std::vector<HostArray> arguments;
  for (const Node& parameter : graph.parameters())
    arguments.push_back(random_array(parameter.type(), seed + arguments.size()));
  GraphRun run = fresh_run(seed, graph, arguments);
  std::vector<HostArray> wanted;
  if (seed % 2 == 0) {
    wanted = interpret(graph, arguments);
  } else {
    run.run();
    for (std::size_t n = 0; n < run.program.results.size(); ++n) wanted.push_back(run.result(n));
  }
  GraphSubject subject{
      seed, std::move(graph), std::move(arguments), std::move(wanted), std::move(run.lowered), {}};
  return subject;
}

/// The graph's results by kernels from `first` on.
std::vector<HostArray> run_kernels(const GraphSubject& subject, std::size_t cut,
                                   const dev::Module& module) {
  GraphRun run = fresh_run(subject.seed, subject.graph, subject.arguments);
  const auto& [parts, first] = subject.cuts[cut];
  for (std::size_t k = 0; k < parts.size(); ++k) {
    std::vector<heddle_kernel_buffer> entries;
    for (const std::uint32_t entry : parts[k].entries)
      entries.push_back({run.arrays[entry].data(), run.arrays[entry].num_bytes()});
    call_kernel(module.host_function(first + k), entries);
  }
  std::vector<HostArray> found;
  for (std::size_t n = 0; n < run.program.results.size(); ++n) found.push_back(run.result(n));
  return found;
}

// F3, J7: whatever the compiler, and wherever kernels are cut
TEST(GraphFuzzTest, CompiledEqualsInterpreted) {
  ToolOptions options;
  options.compile_timeout = std::chrono::minutes(10);
  const auto gccjit = make_gccjit_compiler(options);
  const auto cc = make_cc_compiler(options);
  std::size_t kernels = 0;
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 1);
  const std::uint64_t count = std::max<std::uint64_t>(1, test::seeds(5'000) / (5 * test::slower)),
                      end = begin + count;
  for (std::uint64_t first = begin; first < end; first += graphs_per_unit) {
    CompileUnit unit;
    unit.name = "graphs";
    std::vector<GraphSubject> subjects;
    for (std::uint64_t seed = first; seed < std::min(end, first + graphs_per_unit); ++seed) {
      GraphSubject subject = graph_subject(seed);
      for (const std::size_t most : nodes_max) {
        std::vector<KernelPart> parts = cut_kernels(subject.lowered.loop, most);
        const std::size_t at = unit.kernels.size();
        for (const KernelPart& part : parts) {
          unit.kernels.push_back({.name = fmt::format("kernel{}", unit.kernels.size()),
                                  .loop = VerifiedLoop(part.loop),
                                  .names = {},
                                  .addresses = {}});
        }
        subject.cuts.emplace_back(std::move(parts), at);
      }
      subjects.push_back(std::move(subject));
    }
    kernels += unit.kernels.size();
    std::vector<std::pair<std::string_view, std::shared_ptr<const dev::Module>>> modules;
    modules.emplace_back("gccjit", loaded(*gccjit->compile(unit)));
    if (first / graphs_per_unit % 5 == 0) modules.emplace_back("cc", loaded(*cc->compile(unit)));
    for (const GraphSubject& subject : subjects) {
      for (const auto& [name, module] : modules) {
        for (std::size_t cut = 0; cut < std::size(nodes_max); ++cut) {
          const std::vector<HostArray> found = run_kernels(subject, cut, *module);
          for (std::size_t n = 0; n < found.size(); ++n) {
            ASSERT_TRUE(same_elements(subject.wanted[n], found[n]))
                << name << ", seed " << subject.seed << ", at most " << nodes_max[cut]
                << " nodes, result " << n << "\n"
                << subject.wanted[n].to_string() << "\n"
                << found[n].to_string() << "\n"
                << subject.graph.to_string() << print(subject.lowered.loop);
          }
        }
      }
    }
  }
  EXPECT_GT(kernels, 4 * count);
}

}  // namespace
}  // namespace heddle::jit::testing
