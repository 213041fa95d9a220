// Random graphs through every stage and both compilers, against an interpreter of their nodes:
// every bit. Kernels are cut everywhere, at ten nodes and nowhere. One of two is scheduled, which
// may move sums: where that may change bits, it is held to its own loops. The seed gives each graph
// one compiler and one cut; with HEDDLE_TEST_WAYS=1 it takes all six. HEDDLE_TEST_SEEDS=n looks at
// n graphs instead of 1,000, HEDDLE_TEST_SEED=s at those from s on.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/random_arguments.hpp"
#include "jit/loop/text.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/toolchain/compiler.hpp"
#include "support/seeds.hpp"
#include "unit/jit_compile/kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::uint64_t graphs_per_unit = 200;
constexpr std::size_t nodes_max[] = {1, 10, uncut};

struct GraphSubject : RandomGraph {
  bool is_scheduled, is_exact;

  explicit GraphSubject(std::uint64_t from)
      : RandomGraph(from),
        is_scheduled(drawn(seed, 2) % 2 == 1),
        is_exact(!is_scheduled || any_order_is_exact(graph)) {}

  [[nodiscard]] GraphRun fresh_run() const { return RandomGraph::fresh_run(is_scheduled); }
  [[nodiscard]] std::vector<HostArray> wanted() const { return RandomGraph::wanted(is_scheduled); }
};

/// The kernels of a graph in a unit.
struct GraphKernels {
  const GraphSubject* subject;
  std::size_t nodes_max;
  std::vector<KernelPart> parts;
  std::size_t first;  ///< in the unit
};

class GraphUnit {
 public:
  explicit GraphUnit(const Compiler& compiler) : compiler_(compiler) { unit_.name = "graphs"; }

  void add(const GraphSubject& subject, std::size_t most) {
    std::vector<KernelPart> parts = cut_kernels(subject.fresh_run().lowered.loop, most);
    const std::size_t first = unit_.kernels.size();
    for (const KernelPart& part : parts) {
      unit_.kernels.push_back({.name = fmt::format("kernel{}", unit_.kernels.size()),
                               .loop = VerifiedLoop(part.loop),
                               .names = {},
                               .addresses = {}});
    }
    graphs_.push_back({&subject, most, std::move(parts), first});
  }

  /// Compiles and runs all; the number of kernels.
  std::size_t check() const {
    if (unit_.kernels.empty()) return 0;
    const auto module = loaded(*compiler_.compile(unit_));
    for (const GraphKernels& kernels : graphs_) {
      check(kernels, *module);
      if (::testing::Test::HasFatalFailure()) break;
    }
    return unit_.kernels.size();
  }

 private:
  void check(const GraphKernels& kernels, const dev::Module& module) const {
    const GraphSubject& subject = *kernels.subject;
    GraphRun run = subject.fresh_run();
    for (std::size_t k = 0; k < kernels.parts.size(); ++k) {
      std::vector<heddle_kernel_buffer> entries;
      for (const std::uint32_t entry : kernels.parts[k].entries)
        entries.push_back({run.arrays[entry].data(), run.arrays[entry].num_bytes()});
      call_kernel(module.host_function(kernels.first + k), entries);
    }
    const std::vector<HostArray> wanted = subject.wanted(), found = run.results();
    for (std::size_t n = 0; n < found.size(); ++n) {
      ASSERT_TRUE(same_elements(wanted[n], found[n]))
          << compiler_.name() << ", seed " << subject.seed << ", at most " << kernels.nodes_max
          << " nodes, result " << n << "\n"
          << wanted[n].to_string() << "\n"
          << found[n].to_string() << "\n"
          << subject.graph.to_string() << print(run.lowered.loop);
    }
  }

  const Compiler& compiler_;
  CompileUnit unit_;
  std::vector<GraphKernels> graphs_;
};

// F3, J7: whatever the compiler, and wherever kernels are cut
TEST(GraphFuzzTest, CompiledEqualsInterpreted) {
  ToolOptions options;
  options.compile_timeout = std::chrono::minutes(10);
  const auto gccjit = make_gccjit_compiler(options);
  const auto cc = make_cc_compiler(options);
  const bool all_ways = test::from_environment("HEDDLE_TEST_WAYS", 0) != 0;
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 1);
  const std::uint64_t count = test::seeds(1'000), end = begin + count;
  std::size_t kernels = 0, scheduled = 0, exact = 0;
  for (std::uint64_t first = begin; first < end; first += graphs_per_unit) {
    std::vector<GraphSubject> subjects;
    for (std::uint64_t seed = first; seed < std::min(end, first + graphs_per_unit); ++seed)
      subjects.emplace_back(seed);
    GraphUnit by_gccjit(*gccjit), by_cc(*cc);
    for (const GraphSubject& subject : subjects) {
      for (std::size_t way = 0; way < 6; ++way) {
        if (all_ways || drawn(subject.seed, 3) % 6 == way)
          (way < 3 ? by_gccjit : by_cc).add(subject, nodes_max[way % 3]);
      }
      scheduled += subject.is_scheduled;
      exact += subject.is_scheduled && subject.is_exact;
    }
    kernels += by_gccjit.check() + by_cc.check();
    if (HasFatalFailure()) return;
  }
  if (count < 100) return;  // of few, anything may be
  EXPECT_GT(kernels, 2 * count);
  EXPECT_GE(2 * exact, scheduled);
}

}  // namespace
}  // namespace heddle::jit::testing
