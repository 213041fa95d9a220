// Random programs on a GPU that stands in for one, against the interpreter: every bit of the loops
// that a GPU gets. And what NVRTC says of their kernels, where there is one. HEDDLE_TEST_SEEDS=n
// looks at n programs instead of 200, HEDDLE_TEST_SEED=s at those from s on. HEDDLE_CUDA_DRIVER and
// HEDDLE_NVRTC name other drivers and compilers than the stand-ins.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/cubin.hpp"
#include "fuzz/random_runs.hpp"
#include "fuzz/static_values.hpp"
#include "heddle/graph_ops.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/toolchain/compiler.hpp"
#include "support/gpu_kernels.hpp"
#include "support/loop_interpreter.hpp"
#include "support/seeds.hpp"
#include "tests/support/paths.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::uint64_t programs_at_once = 50;

/// What the loops of a kernel compute from the arrays that a run began with. Scratch is garbage.
std::vector<HostArray> arrays_before(const Lowered& lowered, const Left& run, std::uint64_t seed) {
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < lowered.tensors.size(); ++k) {
    const auto at = std::ranges::find(run.tensors, lowered.tensors[k]) - run.tensors.begin();
    arrays.push_back(
        random_array(lowered.loop.buffers[k].type, seed + static_cast<std::uint64_t>(at)));
  }
  return arrays;
}

/// Whether a run on a GPU left what the loops that it was scheduled as say, to the bit, and what
/// those before say, as near as sums in another order are.
void expect_as_interpreted(const Left& left, const Drawn& drawn, const Lowered& plain,
                           const Lowered& scheduled) {
  std::vector<HostArray> before = arrays_before(plain, left, drawn.seed);
  const ElementErrors errors =
      interpret_bounded(plain.loop, before, statics_of(plain, drawn.random));
  std::vector<HostArray> expected = arrays_before(scheduled, left, drawn.seed);
  interpret(scheduled.loop, expected, statics_of(scheduled, drawn.random));
  for (std::size_t n = 0; n < left.tensors.size(); ++n) {
    const auto at = static_cast<std::size_t>(std::ranges::find(scheduled.tensors, left.tensors[n]) -
                                             scheduled.tensors.begin());
    if (at == scheduled.tensors.size()) continue;
    ASSERT_TRUE(same_elements(expected[at], left.arrays[n]))
        << "seed " << drawn.seed << ", tensor " << n << "\n"
        << drawn.random.program.to_string() << print(scheduled.loop);
    ASSERT_TRUE(near_elements(before[at], left.arrays[n], errors[at]))
        << "seed " << drawn.seed << ", tensor " << n << "\n"
        << drawn.random.program.to_string() << print(scheduled.loop);
  }
}

// B3, B4, J9: groups of threads compute what their loops say, to the bit, and what programs say
TEST(CudaProgramsTest, ComputeWhatLoopsSay) {
  BackendOptions options;
  options.name = "cuda";
  if (std::getenv("HEDDLE_CUDA_DRIVER") == nullptr) {
    options.cuda_driver = test::cuda_standin;
    options.nvrtc = test::nvrtc_standin;
  }
  options.cache = false;
  const Backend gpus = Backend::open(options);
  const Device gpu = gpus.physical_device(0).new_virtual_device();
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 7'000'001);
  const std::uint64_t end = begin + test::seeds(200);
  std::uint64_t ran = 0, in_groups = 0, in_rows = 0, in_columns = 0, in_tiles = 0, turned = 0;
  for (std::uint64_t first = begin; first < end; first += programs_at_once) {
    const std::vector<Drawn> drawn =
        gpu_programs_from(first, std::min(end, first + programs_at_once));
    std::vector<Program> programs;
    BatchOptions batch;
    for (const Drawn& each : drawn) {
      programs.push_back(each.random.program);
      batch.names.push_back("seed" + std::to_string(each.seed));
    }
    const CodeBatch on_gpu = gpus.compile_batch(programs, batch);
    for (std::size_t k = 0; k < drawn.size(); ++k) {
      const Lowered plain = optimize(lower(programs[k]));
      const Left left = run(gpu, *on_gpu[k], drawn[k].random, drawn[k].seed);
      expect_as_interpreted(left, drawn[k], plain, schedule(plain, gpu_target(90)));
      if (::testing::Test::HasFatalFailure()) return;
      ++ran;
      const std::string text = on_gpu[k]->loop_text();
      if (text.find("block ") != std::string::npos) ++in_groups;
      if (text.find("# rows: ") != std::string::npos) ++in_rows;
      if (text.find("# columns: ") != std::string::npos) ++in_columns;
      if (text.find("# contraction: tiles") != std::string::npos) ++in_tiles;
      if (text.find("# transpose: tiles") != std::string::npos) ++turned;
    }
  }
  EXPECT_GT(ran, (end - begin) / 3);
  if (ran < 100) return;  // too few to be of each kind
  EXPECT_GT(in_groups, ran / 2);
  EXPECT_GT(in_rows, ran / 20);
  EXPECT_GE(in_columns, ran / 100);
  EXPECT_GE(in_tiles, ran / 100);
  EXPECT_GE(turned, ran / 50);
}

/// The kernels of a program for a GPU, as one unit.
CompileUnit unit_of(const Program& program, const std::string& name, const Target& target) {
  return gpu_kernels(schedule(optimize(lower(program)), target).loop, name).unit;
}

/// NVIDIA's compiler for three generations of GPUs.
class NvrtcTest : public ::testing::Test {
 protected:
  void SetUp() override {
    for (const int sm : {80, 90, 100}) {
      ToolOptions tools;
      tools.target = gpu_target(sm);
      if (const char* const named = std::getenv("HEDDLE_TEST_NVRTC")) tools.nvrtc = named;
      compilers_.push_back(make_nvrtc_compiler(tools));
    }
    try {
      static_cast<void>(compilers_[0]->describe());
    } catch (const Error& error) {
      if (error.code() == ErrorCode::unavailable) GTEST_SKIP() << "there is no NVRTC here";
      throw;
    }
  }

  std::vector<std::shared_ptr<const Compiler>> compilers_;
};

/// A line of the table in docs/cuda.md.
void tell(const std::string& what, const Target& target, std::vector<CubinUse> uses) {
  const auto most = [&](unsigned CubinUse::* of) { return std::ranges::max(uses, {}, of).*of; };
  const auto in_frames =
      std::ranges::count_if(uses, [](const CubinUse& u) { return u.frame_bytes != 0; });
  std::printf("| %s | %d.%d | %zu | %u | %td, %u | %u | %u + %u, %u + %u, %u |\n", what.c_str(),
              target.sm / 10, target.sm % 10, uses.size(), most(&CubinUse::registers), in_frames,
              most(&CubinUse::frame_bytes), most(&CubinUse::shared_bytes),
              most(&CubinUse::wide_loads), most(&CubinUse::loads), most(&CubinUse::wide_stores),
              most(&CubinUse::stores), most(&CubinUse::copies));
}

// B4: what a GPU often runs keeps its tiles in registers: no kernel has a frame in local memory,
// into which registers would be spilled. Elementwise work, rows and tiles of products load and
// store 16 bytes at once
TEST_F(NvrtcTest, TilesStayInRegisters) {
  const auto graph = [](const char* name, const auto& make) {
    Graph g(name);
    g.finish({make(g)});
    return std::pair(std::string(name), g.program().program);
  };
  const auto matrix = [](Graph& g, const char* name, DType type = f32) {
    return g.parameter(name, {type, {2048, 2048}});
  };
  const std::vector<std::pair<std::string, Program>> programs{
      graph("a + b", [&](Graph& g) { return matrix(g, "a") + matrix(g, "b"); }),
      graph("gelu", [&](Graph& g) { return gelu(matrix(g, "a")); }),
      graph("product", [&](Graph& g) { return matmul(matrix(g, "a"), transpose(matrix(g, "b"))); }),
      graph("product, f16",
            [&](Graph& g) { return matmul(matrix(g, "a", f16), transpose(matrix(g, "b", f16))); }),
      graph("product, bias, relu",
            [&](Graph& g) {
              return relu(matmul(transpose(matrix(g, "a")), matrix(g, "b")) +
                          g.parameter("c", {f32, {2048}}));
            }),
      graph("transpose", [&](Graph& g) { return transpose(matrix(g, "a")); }),
      graph("sums of rows", [&](Graph& g) { return sum(matrix(g, "a"), 1); }),
      graph("sums of columns", [&](Graph& g) { return sum(matrix(g, "a"), 0); }),
      graph("softmax", [&](Graph& g) { return softmax(matrix(g, "a"), 1); }),
      graph("sum of all", [&](Graph& g) { return sum(matrix(g, "a")); })};
  // Loads and stores of 16 bytes, and asynchronous copies, at least.
  struct Wide {
    unsigned loads = 0, stores = 0, copies = 0;
  };
  const std::map<std::string, Wide> wide{{"a + b", {2, 1}},
                                         {"gelu", {1, 1}},
                                         {"sums of rows", {1}},
                                         {"softmax", {3, 1}},
                                         {"product", {0, 16, 16}},
                                         {"product, f16", {0, 16}},
                                         {"product, bias, relu", {16, 16, 16}}};
  for (const auto& [name, program] : programs) {
    for (const std::shared_ptr<const Compiler>& compiler : compilers_) {
      const auto made = compiler->compile(unit_of(program, name, compiler->target()));
      const CubinUse use = use_of(made->image.bytes());
      EXPECT_EQ(use.frame_bytes, 0U) << name << "\n" << made->source;
      EXPECT_LE(use.shared_bytes, 48U << 10U) << name;
      const auto at_once = wide.find(name);
      const Wide least = at_once == wide.end() ? Wide{} : at_once->second;
      EXPECT_GE(use.wide_loads, least.loads) << name << "\n" << made->source;
      EXPECT_GE(use.wide_stores, least.stores) << name << "\n" << made->source;
      EXPECT_GE(use.copies, least.copies) << name << "\n" << made->source;
      tell(name, compiler->target(), {use});
    }
  }
}

// B4: NVIDIA's compiler takes the kernels, for all generations that it makes code for
TEST_F(NvrtcTest, TakesKernelsOfRandomPrograms) {
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 7'000'001);
  std::size_t compiled = 0, in_groups = 0;
  std::vector<std::vector<CubinUse>> uses(compilers_.size());
  for (const Drawn& drawn : gpu_programs_from(begin, begin + test::seeds(200) / 5)) {
    for (std::size_t k = 0; k < compilers_.size(); ++k) {
      const std::shared_ptr<const Compiler>& compiler = compilers_[k];
      const auto made = compiler->compile(
          unit_of(drawn.random.program, "seed" + std::to_string(drawn.seed), compiler->target()));
      uses[k].push_back(use_of(made->image.bytes()));
      EXPECT_FALSE(made->image.bytes().empty());
      EXPECT_EQ(made->image.kind(), "cubin-sm-" + std::to_string(compiler->target().sm));
      ++compiled;
      if (made->source.find("if (threadIdx.x < ") != std::string::npos) ++in_groups;
    }
  }
  for (std::size_t k = 0; k < uses.size(); ++k)
    tell("random programs", compilers_[k]->target(), uses[k]);
  EXPECT_GT(in_groups, compiled / 2);
  EXPECT_GT(compiled, test::seeds(200) / 5);
}

}  // namespace
}  // namespace heddle::jit::testing
