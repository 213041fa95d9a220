// Kernels that run for long look whether they are to stop.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <span>
#include <string>
#include <thread>

#include "compilers.hpp"
#include "disassembly.hpp"
#include "jit/emit/c.hpp"
#include "jit/lower/stop_checks.hpp"
#include "kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

using namespace std::chrono_literals;

/// Sums of a hundred thousand terms that wait for one another; `rows` of them.
std::string long_sums(const std::string& rows) {
  return replaced(R"(buffer t0 inout f64[ROWS]
buffer t1 input f64[100000]
kernel {
  for i0 in 0..ROWS {
    let x0: f64 = t0[i0]
    for i1 in 0..100000 {
      x0 = add.f64(mul.f64(x0, 0.5:f64), t1[i1])
    }
    t0[i0] = x0
  }
}
)",
                  "ROWS", rows);
}

/// A loop of short iterations, which add to one element 100 times each; from 5.
std::string long_loop(const std::string& iterations) {
  return replaced(R"(buffer t0 inout f64[1]
buffer t1 input f64[100000]
kernel {
  for i0 in 5..ITERATIONS {
    for i1 in 0..100 {
      t0[0] = add.f64(t0[0], t1[0])
    }
  }
}
)",
                  "ITERATIONS", iterations);
}

/// Sums over one row, each for itself, whose terms become vectors.
std::string separate_sums(int count) {
  std::string buffers = fmt::format("buffer t{} input i32[100000]\n", count), loops;
  for (int k = count; k-- > 0;) {
    buffers = fmt::format("buffer t{} inout i32[2000]\n", k) + buffers;
    loops = fmt::format(R"(  for i{1} in 0..2000 {{
    let x{0}: i32 = t{0}[i{1}]
    for i{2} in 0..100000 {{
      x{0} = add.i32(x{0}, t{3}[i{2}])
    }}
    t{0}[i{1}] = x{0}
  }}
)",
                        k, 2 * k, 2 * k + 1, count) +
            loops;
  }
  return buffers + "kernel {\n" + loops + "}\n";
}

class StopsTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, StopsTest, ::testing::ValuesIn(every_compiler()), param_name);

struct Told {
  std::int32_t code = 0;
  std::chrono::nanoseconds took{};
  std::vector<double> rows;
};

heddle_kernel_args args_of(std::span<const heddle_kernel_buffer> entries,
                           heddle_kernel_status& status, const std::uint32_t* stop) {
  heddle_kernel_args args{};
  args.struct_size = sizeof args;
  args.abi = HEDDLE_KERNEL_ABI;
  args.buffers = entries.data();
  args.num_buffers = static_cast<std::uint32_t>(entries.size());
  args.num_parts = 1;
  args.status = &status;
  args.stop = stop;
  return args;
}

/// The code of a kernel over `rows`, told to stop after a while by another thread, or not at all.
Told run(heddle_kernel_function function, std::size_t rows, bool stops) {
  Told told;
  told.rows.assign(rows, -1);
  std::vector<double> terms(100'000, 1);
  const heddle_kernel_buffer entries[] = {{told.rows.data(), rows * sizeof(double)},
                                          {terms.data(), terms.size() * sizeof(double)}};
  heddle_kernel_status status{};
  alignas(std::atomic_ref<std::uint32_t>::required_alignment) std::uint32_t stop = 0;
  const heddle_kernel_args args = args_of(entries, status, stops ? &stop : nullptr);
  const auto start = std::chrono::steady_clock::now();
  std::thread other;
  if (stops) {
    other = std::thread([&] {
      std::this_thread::sleep_for(100ms);
      // relaxed: pairs with the kernel's load, and orders nothing.
      std::atomic_ref<std::uint32_t>(stop).store(1, std::memory_order_relaxed);
    });
  }
  function(&args);
  told.took = std::chrono::steady_clock::now() - start;
  if (other.joinable()) other.join();
  told.code = status.code;
  return told;
}

// S12: a kernel of many minutes ends when it is told to, and says so; what it did until then stays
TEST_P(StopsTest, LongKernelsEndEarly) {
  const auto module = loaded(*make()->compile(unit_from("sums", long_sums("1000000"))));
  const Told told = run(module->host_function(0), 1'000'000, true);
  EXPECT_EQ(told.code, HEDDLE_KERNEL_STOPPED);
  EXPECT_LT(told.took, 5s);
  EXPECT_EQ(told.rows.front(), 2.0);
  EXPECT_EQ(told.rows.back(), -1.0);
}

// S12: where nobody may stop them they run to their end
TEST_P(StopsTest, WithoutAWordTheyRunToTheirEnd) {
  const auto module = loaded(*make()->compile(unit_from("sums", long_sums("2000"))));
  const Told told = run(module->host_function(0), 2'000, false);
  EXPECT_EQ(told.code, 0);
  EXPECT_EQ(told.rows, std::vector<double>(2'000, 2.0));
}

// S12: so does a loop of short iterations, which looks now and then
TEST_P(StopsTest, LoopsOfShortIterationsEndEarly) {
  const auto module = loaded(*make()->compile(unit_from("short", long_loop("10000000000"))));
  const Told told = run(module->host_function(0), 1, true);
  EXPECT_EQ(told.code, HEDDLE_KERNEL_STOPPED);
  EXPECT_LT(told.took, 5s);
}

// S12: and goes on where it was, each iteration once, in parts of a kernel too
TEST_P(StopsTest, LoopsThatLookNowAndThenLoseNoIteration) {
  const auto whole = loaded(*make()->compile(unit_from("short", long_loop("1000012"))));
  EXPECT_EQ(run(whole->host_function(0), 1, false).rows, std::vector<double>{100'000'699.0});
  const auto split = loaded(*make()->compile(unit_from("split", R"(buffer t0 inout f64[100000]
buffer t1 input f64[100000]
kernel {
  parallel i0 in 0..100000 {
    for i1 in 0..1000 {
      t0[i0] = add.f64(t0[i0], t1[i1])
    }
  }
}
)")));
  EXPECT_EQ(run(split->host_function(0), 100'000, false).rows, std::vector<double>(100'000, 999.0));
  std::vector<double> rows(100'000), terms(100'000, 1);
  const heddle_kernel_buffer entries[] = {{rows.data(), rows.size() * sizeof(double)},
                                          {terms.data(), terms.size() * sizeof(double)}};
  heddle_kernel_status status{};
  heddle_kernel_args args = args_of(entries, status, nullptr);
  args.num_parts = 3;
  for (args.part = 0; args.part < 3; ++args.part) split->host_function(0)(&args);
  EXPECT_EQ(rows, std::vector<double>(100'000, 1000.0)) << "each part has its own iterations alone";
}

// S12: a kernel may begin with what is at a loaded position; and what lies anywhere takes its time
TEST_P(StopsTest, WhatIsAtPositionsLooksToo) {
  const std::string text = R"(buffer t0 output i32[COUNT]
buffer t1 input i32[4]
buffer t2 input i64[1]
kernel {
  at i0 in 0..4 = t2[0] {
    for i1 in 0..COUNT {
      t0[i1] = t1[i0]
    }
  }
}
)";
  const CompileUnit unit = unit_from("at", replaced(text, "COUNT", "120000000"));
  ASSERT_TRUE(stop_checks(*unit.kernels[0].loop).any);
  const auto module = loaded(*make()->compile(unit));
  std::int32_t values[4] = {};
  std::int64_t place = 0;
  alignas(std::atomic_ref<std::uint32_t>::required_alignment) std::uint32_t stop = 1;
  const heddle_kernel_buffer entries[] = {
      {nullptr, 0}, {values, sizeof values}, {&place, sizeof place}};
  heddle_kernel_status status{};
  const heddle_kernel_args args = args_of(entries, status, &stop);
  module->host_function(0)(&args);
  EXPECT_EQ(status.code, HEDDLE_KERNEL_STOPPED) << "before it writes to nowhere";
  const StopChecks gathers = stop_checks(parsed(R"(buffer t0 output f32[100000000]
buffer t1 input f32[100000000]
buffer t2 input i64[100000000]
kernel {
  for i0 in 0..100000000 {
    at i1 in 0..100000000 = t2[i0] {
      t0[i0] = t1[i1]
    }
  }
}
)"));
  EXPECT_EQ(gathers.every.count(0), 1u);
}

// S12: of loops that are short each, those are left out that come after it was told to stop
TEST_P(StopsTest, LaterLoopsAreLeftOut) {
  const CompileUnit unit = unit_from("later", R"(buffer t0 inout f64[2]
buffer t1 inout u32[1]
kernel {
  for i0 in 0..30000000 {
    t0[0] = add.f64(t0[0], 1:f64)
  }
  t1[0] = 1:u32
  for i1 in 0..30000000 {
    t0[1] = add.f64(t0[1], 1:f64)
  }
}
)");
  const StopChecks checks = stop_checks(*unit.kernels.front().loop);
  ASSERT_TRUE(checks.any && checks.every.empty());
  const auto module = loaded(*make()->compile(unit));
  double sums[2] = {};
  alignas(std::atomic_ref<std::uint32_t>::required_alignment) std::uint32_t stop = 0;
  // The kernel itself asks, between the loops.
  const heddle_kernel_buffer entries[] = {{sums, sizeof sums}, {&stop, sizeof stop}};
  heddle_kernel_status status{};
  const heddle_kernel_args args = args_of(entries, status, &stop);
  module->host_function(0)(&args);
  EXPECT_EQ(status.code, HEDDLE_KERNEL_STOPPED);
  EXPECT_EQ(sums[0], 30'000'000.0);
  EXPECT_EQ(sums[1], 0.0);
}

// J9: it costs nothing that can be measured: iterations of a few instructions do not look, nor do
// kernels that end soon
TEST(StopChecksTest, AreWhereTheyCostLittle) {
  using Every = std::map<VarId, std::int64_t>;
  const StopChecks sums = stop_checks(parsed(long_sums("2000")));
  EXPECT_TRUE(sums.any);
  EXPECT_EQ(sums.every, (Every{{0, 1}}));
  EXPECT_FALSE(stop_checks(parsed(long_sums("100"))).any);
  const StopChecks flat = stop_checks(parsed(R"(buffer t0 inout f32[1000000000]
kernel {
  for i0 in 0..1000000000 {
    t0[i0] = add.f32(t0[i0], 1:f32)
  }
}
)"));
  EXPECT_TRUE(flat.any);
  EXPECT_TRUE(flat.every.empty());
  const StopChecks longer = stop_checks(parsed(R"(buffer t0 inout f64[1]
kernel {
  for i0 in 0..10000000000 {
    t0[0] = add.f64(t0[0], 1:f64)
  }
}
)"));
  EXPECT_EQ(longer.every, (Every{{0, std::int64_t{1} << 19}})) << "it takes ten seconds or more";
  const StopChecks called = stop_checks(parsed(R"(buffer t0 inout f64[100000000]
kernel {
  for i0 in 0..100000000 {
    t0[i0] = mod.f64(t0[i0], 3:f64)
  }
}
)"));
  EXPECT_EQ(called.every.count(0), 1u) << "the C library is called for each element";
  const StopChecks lanes = stop_checks(parsed(R"(buffer t0 inout f32[100000000]
kernel {
  for i0 in 0..6250000 {
    lanes i1 in 0..16 {
      t0[16*i0 + i1] = sin.f32(t0[16*i0 + i1])
    }
  }
}
)"));
  EXPECT_EQ(lanes.every.count(0), 1u) << "one long loop of sines";
  const StopChecks parts = stop_checks(parsed(long_loop("1000012")));
  EXPECT_EQ(parts.every.size(), 1u);
  EXPECT_GE(parts.every.at(0), 1'000) << "iterations between two looks";
  EXPECT_LE(parts.every.at(0), 100'000);
  const StopChecks deep = stop_checks(parsed(R"(buffer t0 inout f32[1000]
kernel {
  for i0 in 0..1000 {
    for i1 in 0..1000 {
      for i2 in 0..1000000 {
        t0[i0] = mul.f32(t0[i0], 2:f32)
      }
    }
  }
}
)"));
  EXPECT_EQ(deep.every, (Every{{0, 1}, {1, 1}}))
      << "an iteration of the outer loop alone takes a second";
}

#if defined(__x86_64__)
// J9: compilers do not take the looks for the end of the kernel: what follows many of them is
// vector code still
TEST_P(StopsTest, LooksLeaveVectorCode) {
  if (__builtin_cpu_supports("avx2") == 0) GTEST_SKIP() << "no vector instructions to look for";
  constexpr int count = 16;
  const CompileUnit unit = unit_from("sums", separate_sums(count));
  ASSERT_TRUE(stop_checks(*unit.kernels[0].loop).any);
  const auto module = loaded(*make()->compile(unit));
  const std::string code = disassembly(module->host_function(0));
  EXPECT_GE(count_instructions(code, {"vpaddd"}, {"),%ymm", "),%zmm"}), count) << code;
}
#endif

// J9: the text of a kernel that ends soon does not know of it
TEST(StopChecksTest, AreSeenInTheText) {
  const std::string without = emit_c(unit_from("sums", long_sums("100")));
  EXPECT_EQ(without.find("stopped"), std::string::npos);
  EXPECT_EQ(without.find("args->stop"), std::string::npos);
  const std::string with = emit_c(unit_from("sums", long_sums("2000")));
  EXPECT_NE(with.find("i0 < 2000; ++i0) {\n    if (__builtin_expect_with_probability("
                      "__atomic_load_n(stop, __ATOMIC_RELAXED), 0, 1.0))\n"),
            std::string::npos)
      << with;
  EXPECT_EQ(with.find("goto stopped"), with.rfind("goto stopped")) << with;
}

}  // namespace
}  // namespace heddle::jit::testing
