// Kernels for GPUs on PoCL, whose groups, barriers and shared memory others wrote, against the
// interpreter: every bit of every buffer. HEDDLE_TEST_SEEDS=n looks at n seeds instead of 40, of
// programs at 3 n; HEDDLE_TEST_SEED=s at those from s on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "fuzz/drawn_programs.hpp"
#include "fuzz/static_values.hpp"
#include "golden/golden_programs.hpp"
#include "heddle/graph_ops.hpp"
#include "heddle/kernel.h"
#include "jit/emit/cuda.hpp"
#include "jit/schedule/schedule.hpp"
#include "opencl/opencl_text.hpp"
#include "opencl/pocl.hpp"
#include "support/compute_types.hpp"
#include "support/gpu_kernels.hpp"
#include "support/loop_interpreter.hpp"
#include "support/parsed.hpp"
#include "support/random_graph.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

const Target gpu = gpu_target(90);

Lowered scheduled(const Program& program) { return schedule(optimize(lower(program)), gpu); }

/// Floats from 0 to 1, whose sums show the order of their terms; any integers.
HostArray fractions(const ArrayType& type, std::uint64_t seed) {
  return is_floating(type.dtype) ? HostArray::uniform(type, seed) : random_array(type, seed);
}

using Fill = HostArray (*)(const ArrayType& type, std::uint64_t seed);

std::vector<HostArray> filled(const Loop& loop, Fill fill, std::uint64_t seed) {
  std::vector<HostArray> arrays;
  for (const BufferDecl& buffer : loop.buffers)
    arrays.push_back(fill(buffer.type, seed + arrays.size()));
  return arrays;
}

/// The kernels of a loop, and their launches.
struct Launches {
  std::string text;
  std::vector<Launch> launches;
};

Launches launches_of(const Loop& loop, const std::vector<HostArray>& arrays,
                     const std::vector<std::int64_t>& statics) {
  const GpuKernels kernels = gpu_kernels(loop, "unit");
  Launches made{emit_opencl(kernels.unit, gpu), {}};
  for (std::size_t k = 0; k < kernels.parts.size(); ++k) {
    const KernelPart& part = kernels.parts[k];
    Launch launch{kernel_symbol(kernels.unit.kernels[k].name), {}, {}, launch_shape(part.loop)};
    for (const std::uint32_t entry : part.entries) launch.buffers.push_back(arrays[entry]);
    for (const std::uint32_t each : part.statics) launch.statics.push_back(statics[each]);
    made.launches.push_back(std::move(launch));
  }
  return made;
}

class PoclTest : public ::testing::Test {
 protected:
  void SetUp() override {
    try {
      open_pocl();
    } catch (const Error& error) {
      if (error.code() != ErrorCode::unavailable) throw;
      GTEST_SKIP() << "there is no PoCL here: " << error.status().message();
    }
  }

  /// Runs the loop on PoCL and by the interpreter. Every second seed launches fewer groups and more
  /// threads than the kernels have use for.
  void expect_as_interpreted(const Loop& loop, Fill fill, std::uint64_t seed,
                             const std::string& name,
                             const std::vector<std::int64_t>& statics = {}) {
    const std::vector<HostArray> expected = filled(loop, fill, seed);
    const std::vector<HostArray> found = filled(loop, fill, seed);
    interpret(loop, expected, statics);
    Launches made = launches_of(loop, found, statics);
    for (Launch& launch : made.launches) {
      if (seed % 2 == 0) continue;
      launch.shape.groups[0] = std::min(launch.shape.groups[0], 3U);
      launch.shape.threads[0] += 32;
    }
    EXPECT_EQ(run_on_pocl(made.text, made.launches), 0) << name;
    for (std::size_t k = 0; k < expected.size(); ++k) {
      ASSERT_TRUE(same_elements(expected[k], found[k]))
          << name << ", seed " << seed << ", buffer " << k << "\n"
          << print(loop) << made.text;
    }
    ++loops_;
    kernels_ += made.launches.size();
    if (made.text.find("  SHARED(") != std::string::npos) ++sharing_;
  }

  /// A line of the table in docs/cuda.md.
  void tell(const char* what) const {
    std::printf("| %s | %zu | %zu | %zu |\n", what, loops_, kernels_, sharing_);
  }

  std::size_t loops_ = 0, kernels_ = 0, sharing_ = 0;
};

// B3, B4: the golden programs
TEST_F(PoclTest, GoldenPrograms) {
  for (const Golden& golden : golden_programs()) {
    for (const Fill fill : {random_array, fractions}) {
      const Lowered made = scheduled(golden.describe());
      expect_as_interpreted(made.loop, fill, loops_, golden.name,
                            std::vector<std::int64_t>(made.statics.size(), 3));
      if (HasFatalFailure()) return;
    }
  }
  tell("golden programs");
}

// B3, B4: random programs with every kind of statement
TEST_F(PoclTest, RandomPrograms) {
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 7'000'001);
  // Half of them merge, or do not compile.
  for (const Drawn& drawn : gpu_programs_from(begin, begin + 3 * test::seeds(40))) {
    const Lowered made = scheduled(drawn.random.program);
    expect_as_interpreted(made.loop, random_array, drawn.seed, drawn.random.program.to_string(),
                          statics_of(made, drawn.random));
    if (HasFatalFailure()) return;
  }
  tell("random programs");
}

// B3, B4: random rows, permutations and sums of products, whose threads share memory
TEST_F(PoclTest, RandomTilesAndRows) {
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 1);
  for (std::uint64_t seed = begin; seed < begin + test::seeds(40); ++seed) {
    const auto make = std::array{random_rows, random_transpose, random_contraction}[seed % 3];
    const Program program = make(seed);
    expect_as_interpreted(scheduled(program).loop, fractions, seed, program.to_string());
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(sharing_, loops_ / 3);
  tell("random rows, permutations, products");
}

// B3, B4: random graphs: sorts, scans, reads and writes by number, random bits too
TEST_F(PoclTest, RandomGraphs) {
  const std::uint64_t begin = test::from_environment("HEDDLE_TEST_SEED", 1);
  for (std::uint64_t seed = begin; seed < begin + test::seeds(40); ++seed) {
    const Graph graph = random_graph(seed, 2 + static_cast<int>(seed % 24));
    expect_as_interpreted(scheduled(graph.program().program).loop, random_array, seed,
                          graph.to_string());
    if (HasFatalFailure()) return;
  }
  tell("random graphs");
}

// B3, B4: frequent graphs, at sizes of several groups and a remainder
TEST_F(PoclTest, FrequentGraphs) {
  const auto matrix = [](Graph& g, const char* name, DType type = f32) {
    return g.parameter(name, {type, {150, 70}});
  };
  const auto expect = [&](const char* name, const auto& make) {
    for (std::uint64_t seed = 0; seed < 2 && !HasFatalFailure(); ++seed) {
      Graph g(name);
      g.finish({make(g)});
      expect_as_interpreted(scheduled(g.program().program).loop, fractions, seed, name);
    }
  };
  expect("gelu", [&](Graph& g) { return gelu(matrix(g, "a")); });
  expect("product", [&](Graph& g) { return matmul(matrix(g, "a"), transpose(matrix(g, "b"))); });
  for (const DType type : {f16, bf16, f64}) {
    expect("product of other types",
           [&](Graph& g) { return matmul(matrix(g, "a", type), transpose(matrix(g, "b", type))); });
  }
  expect("bias, relu", [&](Graph& g) {
    return relu(matmul(transpose(matrix(g, "a")), matrix(g, "b")) + g.parameter("c", {f32, {70}}));
  });
  expect("transpose", [&](Graph& g) { return transpose(matrix(g, "a")); });
  expect("sums of rows", [&](Graph& g) { return sum(matrix(g, "a"), 1); });
  expect("sums of columns", [&](Graph& g) { return sum(matrix(g, "a"), 0); });
  expect("softmax", [&](Graph& g) { return softmax(matrix(g, "a"), 1); });
  expect("sum of all", [&](Graph& g) { return sum(g.parameter("a", {f32, {100'000}})); });
  tell("frequent graphs");
}

// B4: statements that schedules make seldom: of one thread beside groups, of one thread of a group;
// blocks that threads fill in part, fill again, or own; neighbours that a thread writes, and then
// reads by another subscript; elements that threads accumulate in by atomic operations
TEST_F(PoclTest, HandWrittenLoops) {
  for (const char* const body : {
           "t2[0] = add.f32(t2[0], 1:f32)\n"
           "parallel i0 in 0..8 { block i1 in 0..8 { t1[i0, i1] = t0[i0, i1] } }\n",
           "parallel i0 in 0..8 { t2[i0] = add.f32(t2[i0], t0[i0, 0]) }\n"
           "parallel i1 in 0..8 { block i2 in 0..64 { t3[i1, i2] = 1:f32 } }\n",
           "parallel i0 in 0..8 { let x0: f32[200] = 2:f32\n"
           "block i1 in 0..8 { x0[i1] = t0[i0, i1] }\n"
           "block i2 in 0..64 { t3[i0, i2] = x0[199 - i2] } }\n",
           "parallel i0 in 0..8 { for i1 in 0..3 { let x0: f32[64] = 2:f32\n"
           "block i2 in 0..8 { x0[i2 + 8*i1] = t0[i0, i2] }\n"
           "block i3 in 0..64 { t3[i0, i3] = add.f32(t3[i0, i3], x0[63 - i3]) } } }\n",
           "parallel i0 in 0..8 { let x0: f32[8,8,3] = 1:f32\n"
           "block i1 in 0..8 { block i2 in 0..8 { x0[i1, i2, 2] = t0[i1, i2] } }\n"
           "block i3 in 0..8 { block i4 in 0..8 {\n"
           "t3[i0, 8*i3 + i4] = sub.f32(x0[i3, i4, 2], x0[i3, i4, 0]) } } }\n",
           "parallel i0 in 0..4 { block i1 in 0..2 { for i2 in 0..2 { for i3 in 0..2 {\n"
           "lanes i4 in 0..4 { t1[2*i0 + i2, 4*i1 + i4] = t0[2*i0 + i2, 4*i1 + i4]\n"
           "t3[2*i0 + i3, 4*i1 + i4] = add.f32(t3[2*i0 + i3, 4*i1 + i4], "
           "t1[2*i0 + i3, 4*i1 + i4]) } } } } }\n",
           "parallel i0 in 0..8 { block i1 in 0..64 { at i2 in 0..8 = index(i1 - 3) {\n"
           "t4[i2] atomically= add.i32(t4[i2], i32(index(i0)))\n"
           "t5[i2] atomically= max.u32(t5[i2], u32(index(i0 + i1)))\n"
           "t6[i2] atomically= add.i64(t6[i2], -5:i64)\n"
           "t7[i2] atomically= add.f32(t7[i2], 1:f32)\n"
           "t8[i2] atomically= add.f64(t8[i2], 1:f64) } } }\n",
       }) {
    const Loop loop = parsed(std::string("buffer t0 input f32[8,8]\nbuffer t1 output f32[8,8]\n"
                                         "buffer t2 output f32[8]\nbuffer t3 output f32[8,64]\n"
                                         "buffer t4 inout i32[8]\nbuffer t5 inout u32[8]\n"
                                         "buffer t6 inout i64[8]\nbuffer t7 inout f32[8]\n"
                                         "buffer t8 inout f64[8]\nkernel {\n") +
                             body + "}\n");
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      expect_as_interpreted(loop, fractions, seed, body);
      if (HasFatalFailure()) return;
    }
  }
  tell("loops written by hand");
}

/// Appends to a loop a nest of 16 groups of 256 threads, which writes make(operands) to a new
/// buffer, element by element; the operands are elements of new buffers of these types.
template <class Make>
void append_nest(Loop& loop, const std::vector<DType>& operands, DType result, const Make& make) {
  const ArrayType all{result, {4096}};
  const auto group = static_cast<VarId>(2 * loop.body.size());
  const VarId thread = group + 1;
  const Affine at{0, {{AffineTerm::Kind::loop, group, 256}, {AffineTerm::Kind::loop, thread, 1}}};
  std::vector<ValuePtr> values;
  for (const DType type : operands) {
    values.push_back(make_load(static_cast<BufferId>(loop.buffers.size()), type, {at}));
    loop.buffers.push_back({Role::input, {type, {4096}}});
  }
  const StmtPtr store =
      make_store(static_cast<BufferId>(loop.buffers.size()), {at}, make(std::move(values)));
  loop.buffers.push_back({Role::output, all});
  loop.body.push_back(make_loop(group, 0, 16, {make_loop(thread, 0, 256, {store}, LoopMark::block)},
                                LoopMark::parallel));
}

// J3, B4: each operation on each type, of any bits
TEST_F(PoclTest, Operations) {
  for (std::size_t k = 0; k < all_ops().size(); ++k) {
    const auto op = static_cast<Op>(k);
    Loop loop;
    for (const DType type : compute_types) {
      const std::vector<DType> operands(op_info(op).arity, type);
      const auto typing = type_op(op, operands);
      if (!typing || typing->operands != type) continue;
      append_nest(loop, operands, typing->result, [&](std::vector<ValuePtr> values) {
        if (op == Op::where) values[0] = make_cast(values[0], DType::bool_);
        return make_op(op, std::move(values));
      });
    }
    expect_as_interpreted(loop, any_bits, k, std::string(op_info(op).name));
    if (HasFatalFailure()) return;
  }
  tell("operations");
}

// J1, B4: each type converted to each type, of any bits
TEST_F(PoclTest, Conversions) {
  std::vector<DType> types = compute_types;
  types.insert(types.end(), {f16, bf16});
  for (const DType from : types) {
    Loop loop;
    for (const DType to : types) {
      append_nest(loop, {from}, to, [&](const std::vector<ValuePtr>& values) {
        return from == to ? values[0] : make_cast(values[0], to);
      });
    }
    expect_as_interpreted(loop, any_bits, loops_, std::string(name(from)));
    if (HasFatalFailure()) return;
  }
  tell("conversions");
}

// S12, B4: a kernel whose threads wait for each other ends where the host asks, and says so
TEST_F(PoclTest, LongKernelsStopWhenAsked) {
  const Index i, j, k;
  const Tensor a("a", f32, {256, 8192}), b("b", f32, {8192, 256}), c("c", f32, {256, 256});
  Program product("product");
  product << (c(i, j) += a(i, k) * b(k, j));
  const Loop loop = scheduled(product).loop;
  const std::vector<HostArray> arrays = filled(loop, fractions, 1);
  Launches made = launches_of(loop, arrays, {});
  ASSERT_THAT(made.text, ::testing::HasSubstr("if (__syncthreads_or(*stop != 0)"));
  for (Launch& launch : made.launches) launch.asks_to_stop = true;
  EXPECT_EQ(run_on_pocl(made.text, made.launches), HEDDLE_KERNEL_STOPPED);
}

/// The number of barriers of the kernels without which PoCL's results differ.
int needed_barriers(const Program& program) {
  const Loop loop = scheduled(program).loop;
  const std::vector<HostArray> expected = filled(loop, fractions, 1);
  interpret(loop, expected);
  int needed = 0;
  for (std::size_t at = 0;; ++at) {
    const std::vector<HostArray> found = filled(loop, fractions, 1);
    Launches made = launches_of(loop, found, {});
    at = std::min(made.text.find("__syncthreads();", at), made.text.find("__syncwarp();", at));
    if (at == std::string::npos) return needed;
    made.text.erase(at, made.text.find(';', at) + 1 - at);
    run_on_pocl(made.text, made.launches);
    bool same = true;
    for (std::size_t k = 0; k < found.size(); ++k)
      same = same && same_elements(expected[k], found[k]);
    if (!same) ++needed;
  }
}

// B4: PoCL finds missing barriers: of rows, of products and of permutations
TEST_F(PoclTest, BarriersAreNeeded) {
  const Index i, j, k;
  const Tensor x("x", f32, {3, 1000}), sums("sums", f32, {3}), a("a", f32, {64, 40}),
      b("b", f32, {40, 64}), c("c", f32, {64, 64}), turned("turned", f32, {40, 64});
  Program rows("rows"), product("product"), transpose("transpose");
  rows << (sums(i) = sum(x(i, j)));
  product << (c(i, j) += a(i, k) * b(k, j));
  transpose << (turned(i, j) = a(j, i));
  EXPECT_GE(needed_barriers(rows), 8) << "256 sums are joined in 8 steps";
  EXPECT_GE(needed_barriers(product), 4) << "before the tiles are filled, and before they are read";
  EXPECT_GE(needed_barriers(transpose), 4) << "as of a product, whole tiles and the remainder";
}

}  // namespace
}  // namespace heddle::jit::testing
