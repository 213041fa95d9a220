// exp, sin and the like: their errors over the whole range, special values, the same bits from
// every compiler, vector width and level of optimisation and from folding, and that loops around
// them become vector code without calls.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <bit>
#include <random>

#include "compilers.hpp"
#include "disassembly.hpp"
#include "jit/value/primitive_eval.hpp"
#include "kernel_runner.hpp"
#include "support/math_reference.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t chunk = 4096;

std::string function_name(Op op, DType t) {
  return std::string(op_info(op).name) + "_" + std::string(name(t));
}

/// out[i] = op(a[i], b[i]) for so many elements.
KernelSource kernel_of(Op op, DType t, std::int64_t elements = chunk,
                       LoopMark mark = LoopMark::serial) {
  const ArrayType type{t, {elements}};
  Loop loop;
  loop.buffers = {{Role::input, type}, {Role::input, type}, {Role::output, type}};
  std::vector<ValuePtr> args;
  for (BufferId k = 0; k < op_info(op).arity; ++k) args.push_back(make_load(k, t, {affine_var(0)}));
  loop.body = {make_loop(0, 0, elements,
                         {make_store(2, {affine_var(0)}, make_op(op, std::move(args)))}, mark)};
  KernelSource kernel;
  kernel.name = function_name(op, t);
  kernel.loop = VerifiedLoop(std::move(loop));
  return kernel;
}

/// All functions of math_bounds, first those of f32.
CompileUnit math_unit() {
  CompileUnit unit;
  unit.name = "math";
  for (const DType t : {f32, f64}) {
    for (const MathBound& bound : math_bounds) unit.kernels.push_back(kernel_of(bound.op, t));
  }
  return unit;
}
std::size_t kernel_index(std::size_t k, DType t) {
  return k + (t == f64 ? std::size(math_bounds) : 0);
}

template <class T>
std::vector<T> run(heddle_kernel_function function, const std::vector<T>& a,
                   const std::vector<T>& b) {
  std::vector<T> results;
  for (std::size_t from = 0; from < a.size(); from += chunk) {
    const auto part = [&](const std::vector<T>& all) {
      std::vector<T> piece(
          all.begin() + static_cast<std::ptrdiff_t>(from),
          all.begin() + static_cast<std::ptrdiff_t>(std::min(from + chunk, all.size())));
      piece.resize(chunk);
      return bytes_of(piece);
    };
    Call call{{part(a), part(b), std::vector<std::byte>(chunk * sizeof(T))}};
    call.run(function);
    const std::vector<T> piece = elements_of<T>(call.buffers[2]);
    results.insert(results.end(), piece.begin(), piece.end());
  }
  results.resize(a.size());
  return results;
}

template <class T>
using Bits = std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint64_t>;

/// Numbers where functions change their ways: ends of ranges, zeros, infinities, thresholds of
/// the reductions and the neighbours of each, and multiples of pi / 2 that are hardest to tell
/// from whole ones (Muller et al., Handbook of Floating-Point Arithmetic, 11.3.2).
template <class T>
std::vector<T> hard_values() {
  using L = std::numeric_limits<T>;
  std::vector<T> centres{T(0), L::denorm_min(), L::min(), L::max(), L::infinity(), L::epsilon(),
                         T(1), T(0.5), T(2), T(0.625), T(0.75), T(4), T(6), T(20), T(40),
                         T(88.7228), T(103.972), T(709.783), T(745.133), T(128), T(1024), T(149),
                         T(150), T(1074), T(1075), T(0.70710678118654752), T(1.4142135623730951),
                         T(0x1p23), T(0x1p24), T(0x1p52), T(0x1p53), T(3), T(7),
                         T(16367173.0 * 0x1p72), static_cast<T>(6381956970095103.0L * 0x1p797L),
                         // Its cosine of f64 is 1.502 units off.
                         static_cast<T>(9.4048530397495548e+162L)};
  for (int k = 1; k <= 64; ++k) {
    centres.push_back(static_cast<T>(k * 0.78539816339744830961566084581987572L));
    centres.push_back(static_cast<T>(std::ldexp(0.78539816339744830961566084581987572L, k)));
    centres.push_back(static_cast<T>(k * 0.69314718055994530941723212145817657L));
    centres.push_back(static_cast<T>(k + 0.5));
  }
  for (const int exponent : {51, 79, 107, 147, 241, 335, 429, 523, 617, 711, 805, 899, 993})
    centres.push_back(static_cast<T>(std::ldexp(1.0L, exponent)));
  std::vector<T> values{L::quiet_NaN(), -L::quiet_NaN()};
  for (const T centre : centres) {
    for (const T sign : {T(1), T(-1)}) {
      T below = centre;
      T above = centre;
      values.push_back(sign * centre);
      for (int k = 0; k < 3; ++k) {
        values.push_back(sign * (below = std::nextafter(below, T(0))));
        values.push_back(sign * (above = std::nextafter(above, L::infinity())));
      }
    }
  }
  return values;
}

/// Two columns of `count` numbers: hard ones against one another, bit patterns spread evenly over
/// the whole range, and random ones from where results are neither 0 nor infinite.
template <class T>
std::pair<std::vector<T>, std::vector<T>> samples(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  const std::vector<T> hard = hard_values<T>();
  std::pair<std::vector<T>, std::vector<T>> columns;
  auto& [a, b] = columns;
  const auto any_bits = [&] { return std::bit_cast<T>(static_cast<Bits<T>>(random())); };
  const auto within = [&](double end) {
    return static_cast<T>(std::uniform_real_distribution<double>(-end, end)(random));
  };
  for (const T x : hard) {
    a.push_back(x);
    b.push_back(hard[random() % hard.size()]);
  }
  const auto step = static_cast<Bits<T>>(~Bits<T>{0} / count * 3);
  Bits<T> even = static_cast<Bits<T>>(random());
  constexpr double end = sizeof(T) == 4 ? 128 : 1024;
  while (a.size() < count) {
    a.push_back(std::bit_cast<T>(even += step));
    b.push_back(within(10));
    a.push_back(within(end));
    b.push_back(any_bits());
    a.push_back(within(1));
    b.push_back(T(static_cast<int>(random() % 41) - 20));
    // A power somewhere in the range of T.
    const T base = std::fabs(random() % 2 == 0 ? any_bits() : T(1) + within(0.5));
    a.push_back(base);
    b.push_back(static_cast<T>(static_cast<double>(within(end * 1.2)) / std::log2(base)));
  }
  return columns;
}

class MathTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, MathTest, ::testing::ValuesIn(every_compiler()), param_name);

template <class T>
void check_bounds(const dev::Module& module, DType t, std::size_t count, std::uint64_t seed) {
  const auto [a, b] = samples<T>(count, seed);
  for (std::size_t k = 0; k < std::size(math_bounds); ++k) {
    const MathBound& bound = math_bounds[k];
    const std::vector<T> got = run<T>(module.host_function(kernel_index(k, t)), a, b);
    double worst = 0;
    std::size_t at = 0;
    for (std::size_t n = 0; n < a.size(); ++n) {
      const double apart = units_apart(got[n], math_reference(bound.op, a[n], b[n]));
      if (apart > worst) {
        worst = apart;
        at = n;
      }
    }
    EXPECT_LE(worst, t == f32 ? bound.f32 : bound.f64)
        << function_name(bound.op, t) << "(" << a[at] << ", " << b[at] << ") = " << got[at]
        << ", exactly " << math_reference(bound.op, a[at], b[at]) << "; seed " << seed;
  }
}

// J3, B3: the bounds that jit/value/README.md states, over the whole range
TEST_P(MathTest, StaysWithinItsBounds) {
  const std::uint64_t seed = std::random_device{}();
  const auto module = loaded(*make()->compile(math_unit()));
  check_bounds<float>(*module, f32, 120'000, seed);
  check_bounds<double>(*module, f64, 120'000, seed);
}

template <class T>
std::vector<Bits<T>> bits_of(const std::vector<T>& values) {
  std::vector<Bits<T>> bits;
  for (const T v : values) bits.push_back(std::isnan(v) ? ~Bits<T>{0} : std::bit_cast<Bits<T>>(v));
  return bits;
}

template <class T>
std::vector<T> folded(Op op, DType t, const std::vector<T>& a, const std::vector<T>& b) {
  const PrimFunction function = op_function(op, t);
  std::vector<T> results;
  for (std::size_t n = 0; n < a.size(); ++n) {
    const Scalar args[] = {Scalar::of_float(t, a[n]), Scalar::of_float(t, b[n])};
    results.push_back(static_cast<T>(evaluate(function, {args, op_info(op).arity}).f));
  }
  return results;
}

template <class T>
void check_bits(const dev::Module& module, DType t, const std::string& how) {
  const auto [a, b] = samples<T>(8'000, 20240229);
  for (std::size_t k = 0; k < std::size(math_bounds); ++k) {
    const Op op = math_bounds[k].op;
    const auto expected = bits_of(folded<T>(op, t, a, b));
    const auto got = bits_of(run<T>(module.host_function(kernel_index(k, t)), a, b));
    const auto differ = std::ranges::mismatch(got, expected);
    const auto at = static_cast<std::size_t>(differ.in1 - got.begin());
    EXPECT_EQ(at, got.size()) << how << ": " << function_name(op, t) << "(" << a[at] << ", "
                              << b[at] << ")";
  }
}

// B3, D10, J3: where a machine scales by powers of two in one instruction, results are the same
TEST(PrimitivesTest, ScalingInOneInstructionKeepsEveryBit) {
  const auto check = [](DType t, const auto& samples) {
    for (const auto& bound : math_bounds) {
      if (op_info(bound.op).arity != 1) continue;
      const PrimFunction plain = op_function(bound.op, t),
                         scaling = op_function(bound.op, t, Isa::avx512);
      for (const auto each : samples) {
        const Scalar argument[] = {Scalar::of_float(t, each)};
        const double expected = evaluate(plain, argument).f, found = evaluate(scaling, argument).f;
        EXPECT_TRUE(std::bit_cast<std::uint64_t>(expected) == std::bit_cast<std::uint64_t>(found) ||
                    (std::isnan(expected) && std::isnan(found)))
            << function_name(bound.op, t) << "(" << each << ") = " << found << ", not " << expected;
      }
    }
  };
  check(f32, samples<float>(4'000, 5).first);
  check(f64, samples<double>(4'000, 6).first);
}

// B3, D10, J3: folding, scalar code and vectors of any width give one result
TEST_P(MathTest, HasTheSameBitsHoweverItIsCompiled) {
  struct Way {
    int level;
    Isa isa;
  };
  const Isa native = native_target().isa;
  std::vector<Way> ways{{3, native}, {1, native}};
  // Without fma instructions the C library's functions do their work.
  for (const Isa isa : {Isa::portable, Isa::avx2}) {
    if (isa < native) ways.push_back({3, isa});
  }
  if (test::slower > 1) ways.resize(1);  // compilers are not sanitized
  for (const Way& way : ways) {
    ToolOptions options;
    options.optimization_level = way.level;
    options.target = with_isa(options.target, way.isa);
    const auto module = loaded(*make(options)->compile(math_unit()));
    const std::string how = fmt::format("-O{} {}", way.level, name(way.isa));
    check_bits<float>(*module, f32, how);
    check_bits<double>(*module, f64, how);
  }
}

// J9: what may be reassociated is not what the methods rest on
TEST_P(MathTest, StaysPreciseWithFastMath) {
  ToolOptions options;
  options.fast_math = true;
  const auto module = loaded(*make(options)->compile(math_unit()));
  const auto check = [&](auto tag, DType t, double tolerance) {
    using T = decltype(tag);
    std::vector<T> a;
    std::vector<T> b;
    for (int k = 1; k <= 4000; ++k) {
      a.push_back(static_cast<T>(0.01 * k));
      b.push_back(static_cast<T>(0.37 * (k % 20) - 3));
    }
    for (std::size_t k = 0; k < std::size(math_bounds); ++k) {
      const Op op = math_bounds[k].op;
      const std::vector<T> got = run<T>(module->host_function(kernel_index(k, t)), a, b);
      for (std::size_t n = 0; n < a.size(); ++n) {
        const auto exact = static_cast<double>(math_reference(op, a[n], b[n]));
        ASSERT_NEAR(got[n], exact, tolerance * std::max(1.0, std::fabs(exact)))
            << function_name(op, t) << "(" << a[n] << ", " << b[n] << ")";
      }
    }
  };
  check(float{}, f32, 1e-6);
  check(double{}, f64, 1e-13);
}

#if defined(__x86_64__)
// J9: no function is called, and the work is done by vectors
TEST_P(MathTest, LoopsBecomeVectorCode) {
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0)
    GTEST_SKIP() << "no vector instructions to look for";
  const CompileUnit unit = math_unit();
  const auto module = loaded(*make()->compile(unit));
  for (std::size_t k = 0; k < unit.kernels.size(); ++k) {
    const std::string code = disassembly(module->host_function(k));
    ASSERT_FALSE(code.empty()) << "objdump is part of binutils, as the assembler is";
    EXPECT_EQ(count_instructions(code, {"call"}), 0) << unit.kernels[k].name;
    // Tables are looked up in lanes by what schedules make, and not by the compiler itself.
    if (unit.kernels[k].name == "erf_f32") continue;
    EXPECT_GT(count_instructions(code, {"vfmadd", "vfnmadd"}, {"%ymm", "%zmm"}), 0)
        << unit.kernels[k].name;
  }
}

// J9: a table is looked up in one instruction for all lanes
TEST_P(MathTest, LanesLookTablesUp) {
  if (__builtin_cpu_supports("avx2") == 0 || __builtin_cpu_supports("fma") == 0)
    GTEST_SKIP() << "no vector instructions to look for";
  CompileUnit unit{"lookup", {kernel_of(Op::erf, f32, 32, LoopMark::lanes)}};
  const auto module = loaded(*make()->compile(unit));
  const std::string code = disassembly(module->host_function(0));
  EXPECT_GT(count_instructions(code, {"vpermps"}, {"%ymm", "%zmm"}), 0) << code;
  EXPECT_EQ(count_instructions(code, {"vgather"}), 0) << code;
}
#endif

}  // namespace
}  // namespace heddle::jit::testing
