// Kernels that run for long look whether they are to stop.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <map>
#include <span>
#include <string>
#include <thread>

#include "compilers.hpp"
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

class StopsTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, StopsTest, ::testing::Values("cc", "clang", "gccjit"), param_name);

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

// J9: the text of a kernel that ends soon does not know of it
TEST(StopChecksTest, AreSeenInTheText) {
  const std::string without = emit_c(unit_from("sums", long_sums("100")));
  EXPECT_EQ(without.find("stopped"), std::string::npos);
  EXPECT_EQ(without.find("args->stop"), std::string::npos);
  const std::string with = emit_c(unit_from("sums", long_sums("2000")));
  EXPECT_NE(with.find("i0 < 2000; ++i0) {\n    if (__atomic_load_n(stop, __ATOMIC_RELAXED)) goto "
                      "stopped;\n"),
            std::string::npos)
      << with;
  EXPECT_EQ(with.find("goto stopped"), with.rfind("goto stopped")) << with;
}

}  // namespace
}  // namespace heddle::jit::testing
