// Random graphs on pooled devices, compiled and scheduled as users have it, many under way at once,
// against an interpreter of their nodes, or of their loops where sums depend on their order: every
// bit. HEDDLE_TEST_SEEDS=n looks at n graphs instead of 200, HEDDLE_TEST_SEED=s at those from s on.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fuzz/context_arrays.hpp"
#include "fuzz/random_arguments.hpp"
#include "heddle/heddle.hpp"
#include "support/graph_interpreter.hpp"
#include "support/loop_interpreter.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::uint64_t graphs_at_once = 20;

/// A graph that was scheduled on a device of its own.
struct Running {
  RandomGraph random;
  GraphProgram program;
  Routine routine;

  Running(const Backend& backend, std::uint64_t seed)
      : random(seed),
        program(random.graph.program()),
        routine(Context(backend.physical_device(0).new_virtual_device())
                    .link(backend.compile(program.program))) {
    for (std::size_t k = 0; k < random.arguments.size(); ++k) {
      if (routine.context().contains(program.parameters[k]))
        write(routine.context(), program.parameters[k], random.arguments[k]);
    }
    routine.schedule();
  }

  void expect_interpreted() const {
    const std::vector<HostArray> wanted = random.wanted(true);
    std::vector<Tensor> results = program.results;
    results.insert(results.end(), program.marked.begin(), program.marked.end());
    for (std::size_t n = 0; n < wanted.size(); ++n) {
      const HostArray found = read(routine.context(), results[n]);
      ASSERT_TRUE(same_elements(wanted[n], found))
          << "seed " << random.seed << ", result " << n << "\n"
          << wanted[n].to_string() << "\n"
          << found.to_string() << "\n"
          << random.graph.to_string();
    }
  }
};

class PooledGraphsTest : public ::testing::TestWithParam<std::string> {};
INSTANTIATE_TEST_SUITE_P(Backends, PooledGraphsTest,
                         ::testing::Values("pooled_gccjit", "pooled_cc"),
                         [](const auto& backend) { return backend.param; });

// F3: as users run them
TEST_P(PooledGraphsTest, EqualInterpreted) {
  const Backend backend = Backend::open(GetParam());
  std::uint64_t seed = test::from_environment("HEDDLE_TEST_SEED", 1);
  if (GetParam() == "pooled_cc") seed += std::uint64_t{1} << 40U;  // others than by gccjit
  for (std::uint64_t left = test::seeds(200) / 2; left > 0;) {
    std::vector<Running> running;
    for (; left > 0 && running.size() < graphs_at_once; --left)
      running.emplace_back(backend, seed++);
    for (const Running& each : running) {
      each.expect_interpreted();
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace heddle::jit::testing
