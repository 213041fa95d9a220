// The host's floating-point mode affects neither kernels nor compiles. A second program
// of only these tests is built with -ffast-math, and flushes subnormals from its start.
#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "heddle/executor.hpp"
#include "tests/device/backends.hpp"
#include "tests/device/host_floating.hpp"

namespace heddle {
namespace {

using testing::ElementsAre;

/// CPU rows only: other devices have their own arithmetic.
std::vector<std::string> cpu_rows_under_test() {
  std::vector<std::string> names = backends_under_test();
  std::erase_if(names, [](const std::string& name) { return !is_cpu_row(name); });
  return names;
}

class FloatingTest : public testing::TestWithParam<std::string> {};
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(FloatingTest);
INSTANTIATE_TEST_SUITE_P(Backends, FloatingTest, testing::ValuesIn(cpu_rows_under_test()),
                         [](const auto& backend) { return backend.param; });

std::vector<std::uint32_t> bits_of(std::span<const float> values) {
  std::vector<std::uint32_t> bits;
  for (const float& value : values) {
    bits.emplace_back();
    std::memcpy(&bits.back(), &value, sizeof value);
  }
  return bits;
}

// J3, J14, D10: backend threads opened by a host in an unusual mode compute as usual, as does the
// host thread where it runs tasks; compilers fold constants as usual; the host's mode is unchanged
TEST_P(FloatingTest, IsNotTheHosts) {
  const float tiny = std::numeric_limits<float>::min();
  const std::vector<float> values{tiny, 5.0F};
  const UnusualHost host(host_floatings.back());
  const Backend backend = Backend::open(GetParam());
  const Tensor x("x", f32, {2}), halves("halves", f32, {2}), thirds("thirds", f32, {2}),
      folded("folded", f32, {2});
  Index i;
  Program program("floating");
  program << (halves(i) = x(i) * 0.5F) << (thirds(i) = x(i) / 3.0F)
          << (folded(i) = Expr(5.0F) / Expr(3.0F));
  const Routine run =
      Context(backend.physical_device(0).new_virtual_device()).link(backend.compile(program));
  run.context().write(x, values);
  run.schedule();
  EXPECT_THAT(bits_of(run.context().read<float>(halves)), ElementsAre(0x00400000U, 0x40200000U));
  for (const Tensor& third : {thirds, folded})
    EXPECT_EQ(bits_of(run.context().read<float>(third))[1], 0x3fd55555U) << third.label();
  EXPECT_TRUE(host.is_as_before());
}

/// Folded, rounded, subnormal, infinite and NaN values, as a row. The host's own code computes the
/// second value.
Node numbers(const Graph& graph, const Node& x) {
  const volatile float half = 0.5F, small = 2e-40F;
  const auto one = [&](double number, DType dtype = f32) { return graph.constant(number, dtype); };
  return stack({x * 0.1, x * 0 + half * small, cast(one(1e300, f64), f32), cast(one(0.1, f64), f32),
                cast(cast(one(70000), f16), f32), cast(cast(one(1e20), i32), f32), one(3e38) * 2,
                one(1) / 0, exp(one(1000)), log(one(0)), pow(one(0), -1), max(one(-1), x),
                sqrt(one(-1)), one(0) / 0, x + std::numeric_limits<float>::quiet_NaN()});
}

// J14, F1: executors trace, compilers fold and kernels compute the same bits in every host, and no
// host traps; texts of arrays too
TEST_P(FloatingTest, ExecutorsComputeTheSame) {
  for (const HostFloating& floating : {host_floatings.front(), host_floatings.back()}) {
    SCOPED_TRACE(floating.name);
    const UnusualHost host(floating);
    const Backend backend = Backend::open(GetParam());
    const Executor executor(backend.physical_device(0).new_virtual_device(), numbers);
    const Array result = executor(1.0F);
    std::vector<std::uint32_t> bits = bits_of(result.values<float>());
    const std::string text = result.to_string();
    const Executor product(result.device(), [](const Node& a, const Node& b) { return a * b; });
    const std::uint32_t tenth =
        bits_of(product(std::vector<float>{1}, 0.1).values<float>()).front();
    EXPECT_TRUE(host.is_as_before());
    EXPECT_EQ(tenth, 0x3dcccccdU) << "a number that a call is given";
    constexpr std::uint32_t infinity = 0x7f800000, nan_from = 0x7f800001, sign = 0x80000000;
    for (std::uint32_t& each : bits) {
      if ((each & ~sign) >= nan_from) each = nan_from;
    }
    EXPECT_THAT(bits, ElementsAre(0x3dcccccdU, 0x000116c2U, infinity, 0x3dcccccdU, infinity,
                                  0x4f000000U, infinity, infinity, infinity, infinity | sign,
                                  infinity, 0x3f800000U, nan_from, nan_from, nan_from));
    EXPECT_THAT(text, testing::HasSubstr("[0.1, 9.99995e-41, inf, ..., "));
  }
}

#ifdef __FAST_MATH__
// J14: checks that the program flushes subnormals
TEST(FastMathTest, FlushesFromItsStart) { EXPECT_EQ(_mm_getcsr() & 0x8040U, 0x8040U); }
#endif

}  // namespace
}  // namespace heddle
