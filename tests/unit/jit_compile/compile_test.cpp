// Whole kernels on every CPU compiler: statements, addressing, constants, tracing, dumps.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <tuple>

#include "compilers.hpp"
#include "kernel_runner.hpp"
#include "scratch.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CompileTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, CompileTest, ::testing::ValuesIn(every_compiler()), param_name);

const std::string matmul = R"(buffer t0 input f32[4,3]
buffer t1 input f32[3,2]
buffer t2 output f32[4,2]
kernel {
  zero t2
  for i0 in 0..4 {
    for i1 in 0..2 {
      for i2 in 0..3 {
        t2[i0, i1] = add.f32(t2[i0, i1], mul.f32(t0[i0, i2], t1[i2, i1]))
      }
    }
  }
}
)";

TEST_P(CompileTest, MultipliesMatrices) {
  // J3, O48, O49
  const auto compiled = make()->compile(unit_from("mm", matmul));
  const auto module = loaded(*compiled);
  Call call;
  std::vector<float> a(12);
  std::vector<float> b(6);
  for (std::size_t k = 0; k < 12; ++k) a[k] = static_cast<float>(k);
  for (std::size_t k = 0; k < 6; ++k) b[k] = static_cast<float>(10 * k + 1);
  call.buffers = {bytes_of(a), bytes_of(b), bytes_of(std::vector<float>(8, 99.0F))};
  call.run(module->host_function(0));
  std::vector<float> expected(8);
  for (std::size_t i = 0; i < 4; ++i) {
    for (std::size_t j = 0; j < 2; ++j) {
      for (std::size_t k = 0; k < 3; ++k) expected[2 * i + j] += a[3 * i + k] * b[2 * k + j];
    }
  }
  EXPECT_EQ(elements_of<float>(call.buffers[2]), expected) << compiled->source;
  EXPECT_GT(compiled->time.count(), 0);
}

TEST_P(CompileTest, SubscriptsAreAffineInLoopsAndStatics) {
  // J2: affine subscripts, static slices, embedded indices; negative coefficients
  const std::string text = R"(buffer t0 input i32[3,10]
buffer t1 output i64[4,2]
static s0 range 3
kernel {
  for i0 in 0..4 {
    for i1 in 2..4 {
      let x0: i64 = mul.i64(index(1000*i0 - 10*i1 + s0 - 7), 100000:i64)
      t1[-i0 + 3, i1 - 2] = add.i64(i64(t0[s0, 2*i0 + i1]), x0)
    }
  }
}
)";
  const auto module = loaded(*make()->compile(unit_from("affine", text)));
  Call call;
  std::vector<std::int32_t> in(30);
  for (std::size_t k = 0; k < in.size(); ++k) in[k] = static_cast<std::int32_t>(k * k);
  call.buffers = {bytes_of(in), bytes_of(std::vector<std::int64_t>(8))};
  call.statics = {2};
  call.run(module->host_function(0));
  std::vector<std::int64_t> expected(8);
  for (std::int64_t i = 0; i < 4; ++i) {
    for (std::int64_t j = 2; j < 4; ++j) {
      expected[static_cast<std::size_t>((3 - i) * 2 + j - 2)] =
          in[static_cast<std::size_t>(20 + 2 * i + j)] + (1000 * i - 10 * j + 2 - 7) * 100000;
    }
  }
  EXPECT_EQ(elements_of<std::int64_t>(call.buffers[1]), expected);
}

TEST_P(CompileTest, LocalsLiveThroughLoops) {
  // J5: declare and assign
  const auto module = loaded(*make()->compile(unit_from("sum", R"(buffer t0 input f64[5]
buffer t1 output f64[]
kernel {
  let x0: f64 = 0.25:f64
  for i0 in 0..5 {
    let x1: f64 = mul.f64(t0[i0], t0[i0])
    x0 = add.f64(x0, x1)
  }
  t1[] = x0
}
)")));
  Call call;
  call.buffers = {bytes_of(std::vector<double>{1, 2, 3, 4, 5}), bytes_of(std::vector<double>{0})};
  call.run(module->host_function(0));
  EXPECT_THAT(elements_of<double>(call.buffers[1]), ElementsAre(55.25));
}

TEST_P(CompileTest, ConstantsKeepTheirBits) {
  // J3: extreme integers, infinities, NaN, negative zero, subnormals
  const auto module = loaded(*make()->compile(unit_from("constants", R"(buffer t0 output f32[6]
buffer t1 output f64[4]
buffer t2 output i64[3]
buffer t3 output u64[1]
buffer t4 output i32[2]
buffer t5 output i8[1]
buffer t6 output u32[1]
buffer t7 output bool[2]
buffer t8 output f16[1]
kernel {
  t0[0] = inf:f32
  t0[1] = -inf:f32
  t0[2] = nan:f32
  t0[3] = -0:f32
  t0[4] = 1e-45:f32
  t0[5] = 0.1:f32
  t1[0] = -inf:f64
  t1[1] = 5e-324:f64
  t1[2] = 1.7976931348623157e308:f64
  t1[3] = 0.1:f64
  t2[0] = -9223372036854775808:i64
  t2[1] = 9223372036854775807:i64
  t2[2] = -1:i64
  t3[0] = 18446744073709551615:u64
  t4[0] = -2147483648:i32
  t4[1] = 2147483647:i32
  t5[0] = -128:i8
  t6[0] = 4294967295:u32
  t7[0] = 1:bool
  t7[1] = 0:bool
  t8[0] = 1.5:f16
}
)")));
  Call call;
  for (const std::size_t bytes : {24, 32, 24, 8, 8, 1, 4, 2, 2})
    call.buffers.emplace_back(bytes, std::byte{0x55});
  call.run(module->host_function(0));
  const auto f = elements_of<float>(call.buffers[0]);
  EXPECT_EQ(f[0], INFINITY);
  EXPECT_EQ(f[1], -INFINITY);
  EXPECT_TRUE(std::isnan(f[2]));
  EXPECT_TRUE(f[3] == 0 && std::signbit(f[3]));
  EXPECT_EQ(f[4], std::numeric_limits<float>::denorm_min());
  EXPECT_EQ(f[5], 0.1F);
  EXPECT_THAT(elements_of<double>(call.buffers[1]),
              ElementsAre(-INFINITY, 5e-324, std::numeric_limits<double>::max(), 0.1));
  EXPECT_THAT(elements_of<std::int64_t>(call.buffers[2]),
              ElementsAre(std::numeric_limits<std::int64_t>::min(),
                          std::numeric_limits<std::int64_t>::max(), -1));
  EXPECT_THAT(elements_of<std::uint64_t>(call.buffers[3]), ElementsAre(~std::uint64_t{0}));
  EXPECT_THAT(elements_of<std::int32_t>(call.buffers[4]), ElementsAre(INT32_MIN, INT32_MAX));
  EXPECT_THAT(elements_of<std::int8_t>(call.buffers[5]), ElementsAre(-128));
  EXPECT_THAT(elements_of<std::uint32_t>(call.buffers[6]), ElementsAre(UINT32_MAX));
  EXPECT_THAT(elements_of<std::uint8_t>(call.buffers[7]), ElementsAre(1, 0));
  EXPECT_THAT(elements_of<std::uint16_t>(call.buffers[8]), ElementsAre(0x3e00));
}

TEST_P(CompileTest, EmbeddedAddressesReplaceArguments) {
  // O23, J7: code specialised on addresses; the other entries stay arguments
  std::vector<float> embedded{1, 2, 3};
  CompileUnit unit = unit_from("embedded", R"(buffer t0 input f32[3]
buffer t1 input f32[3]
buffer t2 output f32[3]
kernel {
  for i0 in 0..3 {
    t2[i0] = sub.f32(t0[i0], t1[i0])
  }
}
)");
  unit.kernels[0].addresses = {reinterpret_cast<std::uint64_t>(embedded.data())};
  const auto module = loaded(*make()->compile(unit));
  Call call;
  call.buffers = {bytes_of(std::vector<float>{9, 9, 9}), bytes_of(std::vector<float>{5, 5, 5}),
                  bytes_of(std::vector<float>(3))};
  call.run(module->host_function(0));
  EXPECT_THAT(elements_of<float>(call.buffers[2]), ElementsAre(-4, -3, -2));
  embedded[1] = 100;
  call.run(module->host_function(0));
  EXPECT_THAT(elements_of<float>(call.buffers[2]), ElementsAre(-4, 95, -2));
}

struct TraceLine {
  std::uint32_t statement, entry;
  std::int64_t offset;
  double before, after;
  friend bool operator==(const TraceLine&, const TraceLine&) = default;
};
void record(void* context, std::uint32_t statement, std::uint32_t entry, std::int64_t offset,
            double before, double after) {
  static_cast<std::vector<TraceLine>*>(context)->push_back(
      {statement, entry, offset, before, after});
}

TEST_P(CompileTest, TracingTellsEveryAssignment) {
  // O57: statement, entry, offset, before, after
  CompileUnit unit = unit_from("traced", R"(buffer t0 input i32[2]
buffer t1 output i32[2,2]
buffer t2 inout bf16[2]
kernel {
  zero t1
  for i0 in 0..2 {
    t1[i0, 1] = add.i32(t0[i0], t1[i0, 1])
    t2[i0] = bf16(mul.f32(f32(t2[i0]), 2:f32))
  }
}
)");
  unit.trace_values = true;
  const auto module = loaded(*make()->compile(unit));
  Call call;
  call.buffers = {bytes_of(std::vector<std::int32_t>{7, -8}),
                  bytes_of(std::vector<std::int32_t>{1, 2, 3, 4}),
                  bytes_of(std::vector<std::uint16_t>{0x3f80, 0x4000})};  // 1, 2
  std::vector<TraceLine> lines;
  call.trace = record;
  call.trace_context = &lines;
  call.run(module->host_function(0));
  EXPECT_EQ(lines, (std::vector<TraceLine>{{0, 1, 0, 1, 0},
                                           {0, 1, 1, 2, 0},
                                           {0, 1, 2, 3, 0},
                                           {0, 1, 3, 4, 0},
                                           {1, 1, 1, 0, 7},
                                           {2, 2, 0, 1, 2},
                                           {1, 1, 3, 0, -8},
                                           {2, 2, 1, 2, 4}}));
  call.trace = nullptr;  // traced code runs without a tracer too
  call.run(module->host_function(0));
  EXPECT_THAT(elements_of<std::uint16_t>(call.buffers[2]), ElementsAre(0x4080, 0x4100));
}

TEST_P(CompileTest, EmptyArraysAndEmptyKernelsRun) {
  // D3: zero elements
  const auto module = loaded(*make()->compile(unit_from("empty", R"(buffer t0 input f32[0,4]
buffer t1 output f32[4,0]
kernel {
  zero t1
  for i0 in 0..0 {
    for i1 in 0..4 {
      t1[i1, i0] = t0[i0, i1]
    }
  }
}
)")));
  Call call;
  call.buffers = {{}, {}};
  call.run(module->host_function(0));
  CompileUnit nothing;
  nothing.name = "nothing";
  EXPECT_NE(make()->compile(nothing), nullptr);
}

TEST_P(CompileTest, BatchesKeepOrderAndNames) {
  // O25: several kernels are one unit; names may be C's own words
  CompileUnit unit;
  unit.name = "batch";
  int value = 1;
  const std::vector<std::string> names{"double", "exp", "main", "args", "heddle_unit_abi", "0"};
  for (const std::string& name : names) {
    unit.kernels.push_back(kernel_from(name, "buffer t0 output i32[]\nkernel {\n  t0[] = " +
                                                 std::to_string(value++) + ":i32\n}\n"));
  }
  const auto module = loaded(*make()->compile(unit));
  for (std::size_t k = 0; k < names.size(); ++k) {
    Call call;
    call.buffers = {bytes_of(std::vector<std::int32_t>{0})};
    call.run(module->host_function(k));
    EXPECT_THAT(elements_of<std::int32_t>(call.buffers[0]), ElementsAre(k + 1)) << names[k];
  }
}

TEST_P(CompileTest, NamesOfTensorsCannotBreakTheText) {
  // A.6: names are escaped
  CompileUnit unit = unit_from("names", matmul);
  unit.name = "evil */ \n#error unit";
  unit.kernels[0].names.buffers = {"a */ #error", "b \\", "line\n#error line"};
  EXPECT_NO_THROW(static_cast<void>(make()->compile(unit)));
}

TEST_P(CompileTest, DeepValuesCompile) {
  // A.5: deep expressions; clang alone allows 256 brackets
  constexpr int depth = 2000;
  std::string value = "t0[]";
  for (int k = 0; k < depth; ++k) value = "sub.i32(1:i32, " + value + ")";
  const auto module = loaded(*make()->compile(unit_from(
      "deep",
      "buffer t0 input i32[]\nbuffer t1 output i32[]\nkernel {\n  t1[] = " + value + "\n}\n")));
  Call call;
  call.buffers = {bytes_of(std::vector<std::int32_t>{42}), bytes_of(std::vector<std::int32_t>{0})};
  call.run(module->host_function(0));
  EXPECT_THAT(elements_of<std::int32_t>(call.buffers[1]), ElementsAre(42));
}

TEST_P(CompileTest, IllegalUnitsAreRefusedByName) {
  // A.5: the culprit is named, nothing is compiled
  const auto refusal = [](const CompileUnit& unit) -> std::string {
    try {
      static_cast<void>(make()->compile(unit));
    } catch (const Error& error) {
      return error.code() == ErrorCode::invalid_argument ? error.what() : "wrong code";
    }
    return "compiled";
  };
  CompileUnit unit = unit_from("u", matmul);
  unit.kernels[0].name = "a-b";
  EXPECT_THAT(refusal(unit), HasSubstr("'a-b'"));
  unit.kernels[0].name = "";
  EXPECT_THAT(refusal(unit), HasSubstr("kernel name ''"));
  unit = unit_from("u", matmul);
  unit.kernels.push_back(unit.kernels[0]);
  EXPECT_THAT(refusal(unit), HasSubstr("two kernels are named 'u'"));
  unit = unit_from("u", matmul);
  unit.kernels[0].addresses.resize(4);
  EXPECT_THAT(refusal(unit), HasSubstr("4 addresses for 3 buffers"));
  unit.kernels[0].addresses.clear();
  unit.kernels[0].loop = VerifiedLoop();
  EXPECT_THAT(refusal(unit), HasSubstr("has no loops"));
}

TEST_P(CompileTest, DumpsKeepLoopTextAndEmittedText) {
  // O26, J9: debug dumps can be switched on
  const Scratch scratch;
  ToolOptions options = scratch.options();
  options.dump_dir = scratch.path() / "dumps" / "here";
  static_cast<void>(make(options)->compile(unit_from("mm", matmul)));
  EXPECT_THAT(read_text(options.dump_dir / "mm.loop"), HasSubstr("t2[i0, i1] = add.f32"));
  const char* emitted = GetParam() == "gccjit" ? "mm.gccjit.c" : "mm.c";
  EXPECT_THAT(read_text(options.dump_dir / emitted), HasSubstr("heddle_run_mm"));
}

TEST_P(CompileTest, EveryOptimizationLevelGivesTheSame) {
  // B3: the level changes speed only
  for (int level = 0; level <= 3; ++level) {
    ToolOptions options;
    options.optimization_level = level;
    const auto module = loaded(*make(options)->compile(unit_from("mm", matmul)));
    Call call;
    call.buffers = {bytes_of(std::vector<float>(12, 0.1F)), bytes_of(std::vector<float>(6, 0.3F)),
                    bytes_of(std::vector<float>(8))};
    call.run(module->host_function(0));
    const float product = 0.1F * 0.3F;
    EXPECT_THAT(elements_of<float>(call.buffers[2]), ::testing::Each(product + product + product));
  }
}

TEST_P(CompileTest, FastMathLeavesTheProcessAlone) {
  // A.5: denormals pass; -ffast-math at link time would flush them in the whole process
  ToolOptions options;
  options.fast_math = true;
  const auto module = loaded(*make(options)->compile(unit_from("mm", matmul)));
  volatile double tiny = std::numeric_limits<double>::denorm_min();
  EXPECT_GT(tiny * 2, 0.0);
}

TEST_P(CompileTest, DescribesItself) {
  // heddle info: command and version in one line
  const std::string text = make()->describe();
  EXPECT_THAT(text, HasSubstr(GetParam() == "gccjit" ? "libgccjit 1" : "-O3"));
  EXPECT_EQ(text.find('\n'), std::string::npos);
  EXPECT_TRUE(make()->available().ok());
}

TEST(NullCompilerTest, KernelsDoNothing) {
  // the null device: same checks, no code
  const auto module = loaded(*make_null_compiler()->compile(unit_from("mm", matmul)));
  Call call;
  call.buffers = {{}, {}, bytes_of(std::vector<float>(8, 3.0F))};
  call.run(module->host_function(0));
  EXPECT_THAT(elements_of<float>(call.buffers[2]), ::testing::Each(3.0F));
  EXPECT_THROW(static_cast<void>(make_null_compiler()->compile(unit_from("a b", matmul))), Error);
}

}  // namespace
}  // namespace heddle::jit::testing
