// Random programs whose kernels run in parts, in modes pooled, manual and simulated, against the
// same code at width 1: every bit. HEDDLE_TEST_SEEDS=n looks at n programs instead of 400,
// HEDDLE_TEST_SEED=s at those from s on. What a simulation does, and how wide all are, follows from
// a program's seed.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/random_runs.hpp"
#include "heddle/heddle.hpp"
#include "heddle/simulation.hpp"
#include "support/loop_interpreter.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::uint64_t programs_at_once = 100;

/// All that may run in parts does.
BackendOptions in_parts(const std::string& name, std::optional<sched::Mode> mode, int width) {
  BackendOptions options;
  options.name = name;
  options.mode = mode;
  options.width = width;
  options.oversubscribed = true;
  options.kernels = KernelProfile{.part_bytes = 1};
  return options;
}

Left run_simulated(const std::string& backend, const Code& code, const RandomProgram& random,
                   std::uint64_t seed) {
  SimulationOptions options;
  options.seed = seed;
  options.width = static_cast<unsigned>(2 + seed % 7);
  options.faults.fill(false);
  Simulation simulation(options);
  BackendOptions simulated = in_parts(backend, {}, width_automatic);
  simulated.scheduler = simulation.scheduler();
  return run(Backend::open(std::move(simulated)).physical_device(0).new_virtual_device(), code,
             random, seed);
}

class WideProgramsTest : public ::testing::TestWithParam<std::string> {
 protected:
  static Device open(sched::Mode mode, int width) {
    return Backend::open(in_parts(GetParam(), mode, width)).physical_device(0).new_virtual_device();
  }
};
INSTANTIATE_TEST_SUITE_P(Compilers, WideProgramsTest, ::testing::Values("gccjit", "cc"),
                         [](const auto& compiler) { return compiler.param; });

// S19, B3, W1: any width, any mode, any timing
TEST_P(WideProgramsTest, HaveTheBitsOfWidthOne) {
  const bool fast = GetParam() == "gccjit";
  const std::uint64_t begin =
      test::from_environment("HEDDLE_TEST_SEED", 1) + (fast ? 0 : std::uint64_t{1} << 40U);
  const std::uint64_t end = begin + test::seeds(400) / (fast ? 1 : 5);
  const Backend backend = Backend::open(in_parts(GetParam(), {}, 1));
  const Device narrow = backend.physical_device(0).new_virtual_device();
  const std::vector<std::pair<std::string, Device>> wide{
      {"pooled", open(sched::Mode::pooled, 3)},
      {"manual", open(sched::Mode::manual, 5)},
      {"threaded", open(sched::Mode::threaded, 2)}};
  std::uint64_t ran = 0, in_several = 0;
  for (std::uint64_t first = begin; first < end; first += programs_at_once) {
    const std::vector<Drawn> drawn = programs_from(first, std::min(end, first + programs_at_once));
    std::vector<Program> programs;
    BatchOptions batch;
    for (const Drawn& each : drawn) {
      programs.push_back(each.random.program);
      batch.names.push_back("seed" + std::to_string(each.seed));
    }
    const CodeBatch codes = backend.compile_batch(programs, batch);
    for (std::size_t k = 0; k < drawn.size(); ++k) {
      const auto& [seed, random] = drawn[k];
      const Left wanted = run(narrow, *codes[k], random, seed);
      EXPECT_EQ(wanted.parts, 0U);
      std::uint64_t parts = 0;
      const auto expect_same = [&](const Left& left, const std::string& how) {
        for (std::size_t n = 0; n < wanted.arrays.size(); ++n) {
          ASSERT_TRUE(same_elements(left.arrays[n], wanted.arrays[n]))
              << how << ", seed " << seed << ", tensor " << n << "\n"
              << random.program.to_string() << codes[k]->loop_text();
        }
        EXPECT_TRUE(how == "pooled" || (left.parts > 0) == (parts > 0)) << how << " " << seed;
        parts = left.parts;
      };
      for (const auto& [how, device] : wide) expect_same(run(device, *codes[k], random, seed), how);
      expect_same(run_simulated(GetParam(), *codes[k], random, seed), "simulated");
      if (HasFailure()) return;
      ++ran;
      if (parts > 0) ++in_several;
    }
  }
  EXPECT_GT(ran, (end - begin) / 3);
  EXPECT_GT(in_several, ran / 5);
}

}  // namespace
}  // namespace heddle::jit::testing
