// Kernels of which GCC 12 would make wrong code: fuzzing found them.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <numeric>
#include <string>
#include <string_view>
#include <type_traits>

#include "compilers.hpp"
#include "kernel_runner.hpp"

namespace heddle::jit::testing {
namespace {

class WorkaroundsTest : public CompilerTest {};
INSTANTIATE_TEST_SUITE_P(Cpu, WorkaroundsTest, ::testing::ValuesIn(every_compiler()), param_name);

TEST_P(WorkaroundsTest, ZeroMinusZeroIsPositive) {
  // J3: GCC 12 folds these to negations
  const auto module = loaded(*make()->compile(unit_from("minus", R"(buffer t0 input i32[3]
buffer t1 output f32[3]
buffer t2 output f64[3]
buffer t3 output f32[3]
kernel {
  for i0 in 0..3 {
    t1[i0] = sub.f32(0:f32, f32(eq.i32(t0[i0], t0[0])))
    t2[i0] = sub.f64(0:f64, f64(t0[i0]))
    t3[i0] = sub.f32(f32(eq.i32(i32(lt.i32(t0[i0], 5:i32)), 2:i32)), abs.f32(f32(t0[i0])))
  }
}
)")));
  Call call;
  call.buffers = {bytes_of(std::vector<std::int32_t>{7, 0, -2}), bytes_of(std::vector<float>(3)),
                  bytes_of(std::vector<double>(3)), bytes_of(std::vector<float>(3))};
  call.run(module->host_function(0));
  const auto of_bool = elements_of<float>(call.buffers[1]);
  const auto of_integer = elements_of<double>(call.buffers[2]);
  const auto of_magnitude = elements_of<float>(call.buffers[3]);
  EXPECT_THAT(of_bool, ::testing::ElementsAre(-1, 0, 0));
  EXPECT_THAT(of_integer, ::testing::ElementsAre(-7, 0, 2));
  EXPECT_THAT(of_magnitude, ::testing::ElementsAre(-7, 0, -2));
  EXPECT_FALSE(std::signbit(of_bool[1]));
  EXPECT_FALSE(std::signbit(of_integer[1]));
  EXPECT_FALSE(std::signbit(of_magnitude[1]));
}

TEST_P(WorkaroundsTest, StoresComeBeforeTheLoadsThatFollow) {
  // J3: GCC 12.2 makes memset of the stores of t1, behind the loop whose branches read t1
  for (const int count : {2, 5, 100}) {
    const std::string text = fmt::format(R"(buffer t0 scratch i32[{0}]
buffer t1 scratch bool[{0}]
buffer t2 output i32[{0}]
buffer t3 output f32[{0}]
kernel {{
  for i0 in 0..{0} {{
    t0[i0] = 1:i32
    t1[i0] = eq.i32(t0[i0], 0:i32)
    t2[i0] = i32(t1[i0])
    let x0: f32 = where.f32(ne.f32(f32(t1[i0]), 0:f32), 1:f32, 0:f32)
    t3[i0] = mul.f32(mul.f32(x0, 0.5:f32), add.f32(erf.f32(mul.f32(x0, 0.70710677:f32)), 1:f32))
  }}
}}
)",
                                         count);
    const auto module = loaded(*make()->compile(unit_from("stores", text)));
    const auto size = static_cast<std::size_t>(count);
    Call call;
    call.buffers = {
        bytes_of(std::vector<std::int32_t>(size, 7)), bytes_of(std::vector<std::uint8_t>(size, 1)),
        bytes_of(std::vector<std::int32_t>(size, 7)), bytes_of(std::vector<float>(size, 7))};
    call.run(module->host_function(0));
    EXPECT_EQ(elements_of<std::int32_t>(call.buffers[2]), std::vector<std::int32_t>(size, 0));
    EXPECT_EQ(elements_of<float>(call.buffers[3]), std::vector<float>(size, 0)) << count;
  }
}

TEST_P(WorkaroundsTest, ConditionsOfBoolsAreNoVectors) {
  // J3: with AVX-512, GCC 12.2 loads by wrong masks, and orders true before false
  const auto module = loaded(*make()->compile(unit_from("bools", R"(buffer t0 input bool[42,10]
buffer t1 input bool[42,10]
buffer t2 input f32[42,10]
buffer t3 output f32[42,10]
buffer t4 output f32[42,10]
buffer t5 output f32[42,10]
kernel {
  for i0 in 0..42 {
    for i1 in 0..10 {
      t3[i0, i1] = where.f32(or.bool(t0[i0, i1], t1[i0, i1]),
                             where.f32(t1[i0, i1], 1:f32, 0:f32), t2[i0, i1])
    }
  }
  for i2 in 0..42 {
    for i3 in 0..10 {
      t4[i2, i3] = where.f32(max.bool(t0[i2, i3], t1[i2, i3]),
                             where.f32(t1[i2, i3], 1:f32, 0:f32), t2[i2, i3])
    }
  }
  for i4 in 0..42 {
    for i5 in 0..10 {
      t5[i4, i5] = where.f32(lt.bool(t0[i4, i5], t1[i4, i5]), t2[i4, i5],
                             f32(le.bool(t0[i4, i5], t1[i4, i5])))
    }
  }
}
)")));
  std::vector<std::uint8_t> a, b;
  std::vector<float> x, chosen, ordered;
  for (int k = 0; k < 420; ++k) {
    a.push_back(k % 3 == 0 ? 1 : 0);
    b.push_back(k % 5 < 2 ? 1 : 0);
    x.push_back(12.5F + static_cast<float>(k));
    chosen.push_back(a[k] + b[k] > 0 ? static_cast<float>(b[k]) : x[k]);
    ordered.push_back(a[k] < b[k] ? x[k] : static_cast<float>(a[k] <= b[k]));
  }
  Call call;
  const std::vector<float> none(420);
  call.buffers = {bytes_of(a),    bytes_of(b),    bytes_of(x),
                  bytes_of(none), bytes_of(none), bytes_of(none)};
  call.run(module->host_function(0));
  EXPECT_EQ(elements_of<float>(call.buffers[3]), chosen);
  EXPECT_EQ(elements_of<float>(call.buffers[4]), chosen);
  EXPECT_EQ(elements_of<float>(call.buffers[5]), ordered);
}

TEST_P(WorkaroundsTest, NegatedSumsKeepTheSignOfZero) {
  // J3: of -(a b + c) GCC 12 makes -(a b) - c, which is 0 where that is -0
  const auto module = loaded(*make()->compile(unit_from("negated", R"(buffer t0 input f32[3]
buffer t1 output f32[3]
buffer t2 output f32[3]
buffer t3 output f64[3]
kernel {
  for i0 in 0..3 {
    t1[i0] = neg.f32(fma.f32(t0[i0], t0[1], 1:f32))
    let x0: f32 = fma.f32(t0[i0], t0[1], 1:f32)
    t2[i0] = ceil.f32(x0)
    t3[i0] = neg.f64(fma.f64(f64(t0[i0]), f64(t0[1]), 1:f64))
  }
}
)")));
  Call call;
  call.buffers = {bytes_of(std::vector<float>{-1, 1, 2}), bytes_of(std::vector<float>(3)),
                  bytes_of(std::vector<float>(3)), bytes_of(std::vector<double>(3))};
  call.run(module->host_function(0));
  const auto negated = elements_of<float>(call.buffers[1]);
  const auto up = elements_of<float>(call.buffers[2]);
  const auto of_double = elements_of<double>(call.buffers[3]);
  EXPECT_THAT(negated, ::testing::ElementsAre(0, -2, -3));
  EXPECT_THAT(up, ::testing::ElementsAre(0, 2, 3));
  EXPECT_THAT(of_double, ::testing::ElementsAre(0, -2, -3));
  EXPECT_TRUE(std::signbit(negated[0]));
  EXPECT_FALSE(std::signbit(up[0]));
  EXPECT_TRUE(std::signbit(of_double[0]));
}

TEST_P(WorkaroundsTest, SumsInOrderTakeEachTermOnce) {
  // J3: GCC 12.2 forgets that the terms of a vectorised sum lie in another order (PR110381)
  const auto module = loaded(*make()->compile(unit_from("sums", R"(buffer t0 input f64[6,4]
buffer t1 input f32[6,4]
buffer t2 output f64[]
buffer t3 output f32[]
buffer t4 output f64[]
buffer t5 output f64[]
kernel {
  let x0: f64 = 0:f64
  for i0 in 0..6 {
    for i1 in 0..4 {
      x0 = add.f64(x0, t0[i0, -i1 + 3])
    }
  }
  t2[] = x0
  let x1: f32 = 0:f32
  for i2 in 0..6 {
    for i3 in 0..4 {
      x1 = add.f32(x1, t1[i2, -i3 + 3])
    }
  }
  t3[] = x1
  let x2: f64 = 0:f64
  for i4 in 0..6 {
    for i5 in 0..4 {
      x2 = add.f64(x2, f64(i64(mul.f32(t1[i4, -i5 + 3], 4:f32))))
    }
  }
  t4[] = x2
  let x3: f64 = 0:f64
  for i6 in 0..6 {
    unroll i7 in 0..4 {
      x3 = add.f64(x3, t0[i6, -i7 + 3])
    }
  }
  t5[] = x3
}
)")));
  std::vector<double> terms(24);
  std::vector<float> small(24);
  std::iota(terms.begin(), terms.end(), 1);
  std::iota(small.begin(), small.end(), 1);
  for (std::size_t k = 0; k < terms.size(); ++k)
    small[k] = static_cast<float>(terms[k] *= terms[k]);
  Call call;
  call.buffers = {bytes_of(terms),
                  bytes_of(small),
                  bytes_of(std::vector<double>(1)),
                  bytes_of(std::vector<float>(1)),
                  bytes_of(std::vector<double>(1)),
                  bytes_of(std::vector<double>(1))};
  call.run(module->host_function(0));
  EXPECT_EQ(elements_of<double>(call.buffers[2])[0], 4900);
  EXPECT_EQ(elements_of<double>(call.buffers[5])[0], 4900);
  EXPECT_EQ(elements_of<float>(call.buffers[3])[0], 4900);
  EXPECT_EQ(elements_of<double>(call.buffers[4])[0], 4 * 4900);
}

TEST_P(WorkaroundsTest, NumbersMadeWholeAreNeverMinusZero) {
  // J3: of float(integer(a)) GCC 12 makes trunc(a), which is -0 of -0.5
  const auto module = loaded(*make()->compile(unit_from("whole", R"(buffer t0 input f32[3]
buffer t1 output f32[3]
buffer t2 output f32[3]
buffer t3 output f32[3]
kernel {
  for i0 in 0..3 {
    t1[i0] = f32(i32(t0[i0]))
    t2[i0] = max.f32(t0[i0], f32(i8(t0[i0])))
    t3[i0] = tanh.f32(f32(i16(t0[i0])))
  }
}
)")));
  Call call;
  call.buffers = {bytes_of(std::vector<float>{-0.5, -0.25, -0.125})};
  for (int k = 0; k < 3; ++k) call.buffers.push_back(bytes_of(std::vector<float>(3)));
  call.run(module->host_function(0));
  for (std::size_t k = 1; k <= 3; ++k) {
    const auto whole = elements_of<float>(call.buffers[k]);
    EXPECT_THAT(whole, ::testing::ElementsAre(0, 0, 0)) << k;
    for (const float each : whole) EXPECT_FALSE(std::signbit(each)) << k;
  }
}

TEST_P(WorkaroundsTest, NumbersDifferFromTheirNegations) {
  // J3: of (x ^ sign) == x GCC 12 makes sign == 0, as floats, which -0 is
  const auto module = loaded(*make()->compile(unit_from("negations", R"(buffer t0 input f32[8]
buffer t1 input f64[8]
buffer t2 output f32[8,8]
buffer t3 output f64[8,8]
kernel {
  for i0 in 0..8 {
    for i1 in 0..8 {
      t2[i0, i1] = f32(eq.f32(neg.f32(t0[i0]), t0[i0]))
    }
  }
  for i2 in 0..8 {
    for i3 in 0..8 {
      t3[i2, i3] = f64(ne.f64(neg.f64(t1[i3]), t1[i3]))
    }
  }
}
)")));
  const std::vector<double> numbers{1, 0, -0.0, -2.5, INFINITY, -INFINITY, NAN, 1e-40};
  Call call;
  call.buffers = {bytes_of(std::vector<float>(numbers.begin(), numbers.end())), bytes_of(numbers),
                  bytes_of(std::vector<float>(64)), bytes_of(std::vector<double>(64))};
  call.run(module->host_function(0));
  const auto same = elements_of<float>(call.buffers[2]);
  const auto different = elements_of<double>(call.buffers[3]);
  for (std::size_t k = 0; k < 8; ++k) {
    for (std::size_t n = 0; n < 8; ++n) {
      EXPECT_EQ(same[8 * k + n], numbers[k] == 0 ? 1 : 0) << numbers[k];
      EXPECT_EQ(different[8 * n + k], numbers[k] == 0 ? 0 : 1) << numbers[k];
    }
  }
}

/// C is false. Terms of sums that leave -0 as it is.
constexpr std::array conditional_sums{
    "x0 = sub.f32(x0, satur01_gate.f32(t0[i0], -1:f32))",
    "x0 = sub.f32(x0, where.f32(C, -1:f32, 0:f32))",
    "x0 = add.f32(where.f32(C, t1[i0], -0:f32), x0)",
    "x0 = add.f32(x0, mul.f32(relu.f32(t1[i0]), -2:f32))",
    "x0 = where.f32(C, add.f32(x0, t1[i0]), x0)",
    "x0 = where.f32(C, sub.f32(x0, -1:f32), mul.f32(x0, 1:f32))",
    "x0 = add.f32(x0, neg.f32(f32(mul.i32(where.i32(C, t3[i0], 0:i32), t3[i0]))))",
    "x0 = add.f32(x0, neg.f32(where.f32(C, t1[i0], f32(index(0)))))",
    "x0 = add.f32(x0, f32(where.f64(C, f64(t1[i0]), -1e-300:f64)))",
    "x0 = add.f32(x0, neg.f32(f32(where.i32(eq.i32(t3[i0], 0:i32), t3[i0], t6[i0]))))",
    R"(x0 = add.f32(x0, neg.f32(sub.f32(where.f32(eq.f32(t0[i0], 5:f32), t0[i0], t1[i0]),
                                            5:f32))))",
    R"(let x1: f32 = sub.f32(x0, where.f32(C, -1:f32, 0:f32))
    x0 = x1)",
    R"(let x1: f32 = x0
    x0 = sub.f32(x1, where.f32(C, -1:f32, 0:f32)))",
    R"(let x1: f32 = 0:f32
    x1 = where.f32(C, -1:f32, 0:f32)
    x0 = sub.f32(x0, x1))",
    R"(let x1: f32 = 0:f32
    x1 = where.f32(C, -1:f32, x1)
    x0 = sub.f32(x0, x1))",
    R"(let x1: f32 = 0:f32
    for i1 in 0..2 {
      x1 = add.f32(x1, where.f32(C, -1:f32, 0:f32))
    }
    x0 = sub.f32(x0, x1))",
    R"(let x1: f32 = 0:f32
    x1 = where.f32(C, 0:f32, 1:f32)
    x0 = sub.f32(x0, add.f32(x1, -1:f32)))",
    R"(t5[i0] = where.f32(C, -1:f32, 0:f32)
    x0 = sub.f32(x0, t5[i0]))",
    "t4[0] = sub.f32(t4[0], where.f32(lt.f32(mul.f32(t4[3], f32(index(i0))), 3:f32), -1:f32, "
    "0:f32))",
    R"(let x1: f32 = t4[0]
    t4[0] = sub.f32(x1, where.f32(lt.f32(mul.f32(t4[3], f32(index(i0))), 3:f32), -1:f32, 0:f32)))",
    R"(for i1 in 0..2 {
      t4[i1] = sub.f32(t4[i1], where.f32(lt.f32(mul.f32(t4[3], f32(index(i0))), 3:f32), -1:f32,
                                         0:f32))
    })",
};

template <class T>
void expect_minus_zero(const Compiler& compiler, const char* sum) {
  const std::string text = replaced(replaced(R"(buffer t0 input f32[16]
buffer t1 input f32[16]
buffer t2 inout f32[]
buffer t3 input i32[16]
buffer t4 inout f32[4]
buffer t5 inout f32[16]
buffer t6 input i32[16]
kernel {
  let x0: f32 = t2[]
  for i0 in 0..16 {
    SUM
  }
  t2[] = x0
}
)",
                                             "SUM", sum),
                                    "C,", "lt.f32(t0[i0], 1:f32),");
  const bool is_double = std::is_same_v<T, double>;
  const auto module = loaded(
      *compiler.compile(unit_from("conditional", is_double ? replaced(text, "f32", "f64") : text)));
  const T zero = static_cast<T>(-0.0);
  const std::vector<T> small{zero, zero, zero, static_cast<T>(NAN)};
  const auto terms = [](T value) { return bytes_of(std::vector<T>(16, value)); };
  const auto integers = [](std::int32_t v) { return bytes_of(std::vector<std::int32_t>(16, v)); };
  Call call;
  call.buffers = {terms(5),    terms(-5),       bytes_of(std::vector<T>{zero}),
                  integers(0), bytes_of(small), terms(0),
                  integers(7)};
  call.run(module->host_function(0));
  EXPECT_EQ(call.buffers[2], bytes_of(std::vector<T>{zero})) << text;
  EXPECT_EQ(call.buffers[4], bytes_of(small)) << text;
}

TEST_P(WorkaroundsTest, SumsOfConditionalTermsKeepTheSignOfZero) {
  // J3: for c ? x + t : x GCC 12.2 makes vectors of x + (c ? t : 0), which is 0 for -0
  const auto compiler = make();
  for (const char* const sum : conditional_sums) {
    expect_minus_zero<float>(*compiler, sum);
    if (std::string_view(sum).find("f64") == std::string_view::npos)
      expect_minus_zero<double>(*compiler, sum);
  }
}

TEST_P(WorkaroundsTest, WideIntegersCutToBytesCompileAgain) {
  // J10: libgccjit 12.2 makes no vectors of these but in the first compile of a process
  // ("unrecognizable insn"): a new helper is asked
  const auto compiler = make();
  for (const int value : {3, 4, 5}) {
    const auto module =
        loaded(*compiler->compile(unit_from("bytes", fmt::format(R"(buffer t0 output f16[3]
buffer t1 input f64[]
buffer t2 inout i64[4,2]
kernel {{
  t0[1] = f16(pow.f64(t1[], {}:f64))
  for i0 in 0..4 {{
    for i1 in 0..2 {{
      t2[i0, i1] = i64(i8(floor.i64(t2[i1, -i1 + 1])))
    }}
  }}
}}
)",
                                                                 value))));
    Call call;
    call.buffers = {bytes_of(std::vector<std::uint16_t>(3)), bytes_of(std::vector<double>{1}),
                    bytes_of(std::vector<std::int64_t>{0, 250, 0, 0, 0, 0, 0, 0})};
    call.run(module->host_function(0));
    EXPECT_EQ(elements_of<std::int64_t>(call.buffers[2])[0], -6);
  }
}

TEST_P(WorkaroundsTest, VectorsThatTheCompilerFailsToMakeAreLeftOut) {
  // J10: GCC 12.2 ends with an internal error (in vect_slp_analyze_node_operations_1), libgccjit in
  // any process: both are asked to make no vectors but those of schedules
  const auto module = loaded(*make()->compile(unit_from("mixed", R"(buffer t0 inout u8[14,10]
buffer t1 input i32[14,10]
kernel {
  for i0 in 0..13 {
    for i1 in 0..2 {
      t0[i0 + 1, i1 + 1] = u8(sub.i32(i32(mul.u8(add.u8(where.u8(lt.u8(t0[i0 + 1, i1 + 1], 1:u8),
        t0[i0 + 1, i1 + 1], 1:u8), 1:u8), 1:u8)), t1[i0 + 1, i1 + 1]))
    }
  }
}
)")));
  std::vector<std::uint8_t> bytes(140);
  std::vector<std::int32_t> numbers(140);
  for (std::size_t k = 0; k < 140; ++k) {
    bytes[k] = static_cast<std::uint8_t>(k % 3);
    numbers[k] = static_cast<std::int32_t>(k % 5);
  }
  Call call;
  call.buffers = {bytes_of(bytes), bytes_of(numbers)};
  call.run(module->host_function(0));
  for (std::size_t k = 0; k < 140; ++k) {
    const bool computed = k >= 10 && (k % 10 == 1 || k % 10 == 2);
    if (computed) bytes[k] = static_cast<std::uint8_t>((bytes[k] < 1 ? 1 : 2) - numbers[k]);
  }
  EXPECT_EQ(elements_of<std::uint8_t>(call.buffers[0]), bytes);
}

TEST_P(WorkaroundsTest, ComparisonsAreOneWhenTheyAreSummed) {
  // J3: in straight code GCC 12.2 makes vectors of these sums where true is -1
  const auto module = loaded(*make()->compile(unit_from("truths", R"(buffer t0 input i16[4,3,4]
buffer t1 output u8[4]
buffer t2 output i16[4]
buffer t3 output i16[4]
kernel {
  for i0 in 0..4 {
    let x0: u8 = 0:u8
    for i1 in 0..4 {
      x0 = u8(max.i16(i16(x0), satur01.i16(t0[i0, 2, i1])))
    }
    t1[i0] = x0
  }
  for i2 in 0..4 {
    let x1: i16 = 0:i16
    for i3 in 0..4 {
      x1 = max.i16(x1, i16(lt.i16(0:i16, t0[i2, 2, i3])))
    }
    t2[i2] = x1
  }
  for i4 in 0..4 {
    let x2: i16 = 0:i16
    for i5 in 0..4 {
      x2 = add.i16(x2, i16(lt.i16(0:i16, t0[i4, 2, i5])))
    }
    t3[i4] = x2
  }
}
)")));
  std::vector<std::int16_t> rows(48);
  const std::array<std::int16_t, 16> last{1, 0, 2, 0, 0, 0, -1, 0, 0, 0, 0, 300, 5, 5, 5, 5};
  for (std::size_t k = 0; k < 16; ++k) rows[12 * (k / 4) + 8 + k % 4] = last[k];
  Call call;
  call.buffers = {bytes_of(rows), bytes_of(std::vector<std::uint8_t>(4)),
                  bytes_of(std::vector<std::int16_t>(4)), bytes_of(std::vector<std::int16_t>(4))};
  call.run(module->host_function(0));
  EXPECT_THAT(elements_of<std::uint8_t>(call.buffers[1]), ::testing::ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(elements_of<std::int16_t>(call.buffers[2]), ::testing::ElementsAre(1, 0, 1, 1));
  EXPECT_THAT(elements_of<std::int16_t>(call.buffers[3]), ::testing::ElementsAre(2, 0, 1, 4));
}

}  // namespace
}  // namespace heddle::jit::testing
