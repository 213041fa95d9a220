// Typing and folding of operations on constants: the exact meanings that compiled code must repeat.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>

#include "jit/value/ops.hpp"
#include "jit/value/threefry.hpp"

namespace heddle::jit {
namespace {

Scalar integer(DType t, std::int64_t v) { return Scalar::of_int(t, v); }
Scalar real(DType t, double v) { return Scalar::of_float(t, v); }

template <class... A>
Scalar fold(Op op, A... args) {
  const std::array<Scalar, sizeof...(A)> values{args...};
  std::array<DType, sizeof...(A)> types{};
  for (std::size_t k = 0; k < types.size(); ++k) types[k] = values[k].dtype;
  const auto typing = type_op(op, types);
  EXPECT_TRUE(typing.has_value());
  const Scalar result = fold_op(op, values);
  EXPECT_EQ(result.dtype, typing->result) << op_info(op).name;
  return result;
}

constexpr double nan_value = std::numeric_limits<double>::quiet_NaN();

// J3
TEST(FoldTest, IntegersWrapAndDivisionIsDefinedEverywhere) {
  EXPECT_EQ(fold(Op::add, integer(u8, 250), integer(u8, 10)).i, 4);
  EXPECT_EQ(fold(Op::sub, integer(u16, 0), integer(u16, 1)).i, 65535);
  EXPECT_EQ(fold(Op::mul, integer(i8, 100), integer(i8, 3)).i, 44);
  EXPECT_EQ(fold(Op::div, integer(i32, 7), integer(i32, 0)).i, 0);
  EXPECT_EQ(fold(Op::mod, integer(i32, 7), integer(i32, 0)).i, 0);
  const auto lowest = std::numeric_limits<std::int64_t>::min();
  EXPECT_EQ(fold(Op::div, integer(i64, lowest), integer(i64, -1)).i, lowest);
  EXPECT_EQ(fold(Op::mod, integer(i64, lowest), integer(i64, -1)).i, 0);
  EXPECT_EQ(fold(Op::div, integer(i32, -7), integer(i32, 2)).i, -3);
  EXPECT_EQ(fold(Op::mod, integer(i32, -7), integer(i32, 2)).i, -1);
  EXPECT_EQ(fold(Op::div, integer(u64, -1), integer(u64, 2)).i,
            std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(fold(Op::mod, integer(u64, -2), integer(u64, -1)).i, -2);
  EXPECT_EQ(fold(Op::abs, integer(i8, -128)).i, -128);
  EXPECT_EQ(fold(Op::neg, integer(u32, 1)).i, 0xffffffff);
}

// J3
TEST(FoldTest, IntegerPowers) {
  EXPECT_EQ(fold(Op::pow, integer(i32, 3), integer(i32, 4)).i, 81);
  EXPECT_EQ(fold(Op::pow, integer(i32, 5), integer(i32, 0)).i, 1);
  EXPECT_EQ(fold(Op::pow, integer(i32, 2), integer(i32, -1)).i, 0);
  EXPECT_EQ(fold(Op::pow, integer(i32, -1), integer(i32, -3)).i, -1);
  EXPECT_EQ(fold(Op::pow, integer(i32, 1), integer(i32, -9)).i, 1);
  EXPECT_EQ(fold(Op::pow, integer(u8, 3), integer(u8, 200)).i, 0xa1);  // 3^200 mod 256
}

// J3
TEST(FoldTest, MaxAndMinPropagateNaNFromEitherSide) {
  for (const Op op : {Op::max, Op::min}) {
    EXPECT_TRUE(std::isnan(fold(op, real(f32, nan_value), real(f32, 1)).f));
    EXPECT_TRUE(std::isnan(fold(op, real(f32, 1), real(f32, nan_value)).f));
  }
  EXPECT_EQ(fold(Op::max, real(f64, -1), real(f64, 2)).f, 2);
  EXPECT_EQ(fold(Op::min, integer(u64, -1), integer(u64, 2)).i, 2);
}

// J3, O49: a gate is a choice, not a multiplication
TEST(FoldTest, GatesChooseAndDoNotMultiply) {
  EXPECT_EQ(fold(Op::relu_gate, real(f32, -1), real(f32, nan_value)).f, 0);
  EXPECT_EQ(fold(Op::relu_gate, real(f32, nan_value), real(f32, 3)).f, 0);
  EXPECT_TRUE(std::isnan(fold(Op::relu, real(f32, nan_value)).f));
  EXPECT_EQ(fold(Op::satur01_gate, real(f32, 0.5), real(f32, 3)).f, 3);
  EXPECT_EQ(fold(Op::satur01_gate, real(f32, 1.0), real(f32, 3)).f, 0);
  EXPECT_TRUE(std::isnan(fold(Op::satur01, real(f64, nan_value)).f));
}

// J3
TEST(FoldTest, ComparisonsWithNaN) {
  EXPECT_EQ(fold(Op::lt, real(f32, nan_value), real(f32, 1)).i, 0);
  EXPECT_EQ(fold(Op::le, real(f32, nan_value), real(f32, nan_value)).i, 0);
  EXPECT_EQ(fold(Op::eq, real(f32, nan_value), real(f32, nan_value)).i, 0);
  EXPECT_EQ(fold(Op::ne, real(f32, nan_value), real(f32, nan_value)).i, 1);
}

// J1
TEST(ConvertTest, FloatToIntegerTruncatesAndSaturates) {
  EXPECT_EQ(convert(real(f64, -3.9), i32).i, -3);
  EXPECT_EQ(convert(real(f64, 1e30), i64).i, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(convert(real(f64, -1e30), i64).i, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ(convert(real(f64, 300), u8).i, 255);
  EXPECT_EQ(convert(real(f64, -1), u8).i, 0);
  EXPECT_EQ(convert(real(f64, nan_value), i16).i, 0);
  EXPECT_EQ(static_cast<std::uint64_t>(convert(real(f64, 0x1p63), u64).i), std::uint64_t{1} << 63);
  EXPECT_EQ(static_cast<std::uint64_t>(convert(real(f64, 1e30), u64).i), ~std::uint64_t{0});
  EXPECT_EQ(convert(real(f64, 0.5), bool_).i, 1);
  EXPECT_EQ(convert(real(f64, nan_value), bool_).i, 1);
}

// J1
TEST(ConvertTest, IntegersWrapAndRoundOnceToFloat) {
  EXPECT_EQ(convert(integer(i32, -1), u8).i, 255);
  EXPECT_EQ(convert(integer(u32, 0x80000000), i32).i, std::numeric_limits<std::int32_t>::min());
  // 2^24+1 + 2^54: through binary64 it would round twice, to another binary32.
  const std::int64_t tricky = (std::int64_t{1} << 54) + (std::int64_t{1} << 30) + 1;
  EXPECT_EQ(convert(integer(i64, tricky), f32).f, static_cast<float>(tricky));
  EXPECT_EQ(convert(integer(u64, -1), f64).f, 0x1p64);
  EXPECT_EQ(convert(real(f64, 2049), f16).f, 2048);
}

// J3: known answers of Random123's Threefry-2x32-20 (kat_vectors)
TEST(ThreefryTest, MatchesThePublishedVectors) {
  const auto word = [](std::uint32_t low, std::uint32_t high) {
    return static_cast<std::uint64_t>(low) | (static_cast<std::uint64_t>(high) << 32);
  };
  EXPECT_EQ(threefry2x32(0, 0, 20), word(0x6b200159u, 0x99ba4efeu));
  EXPECT_EQ(threefry2x32(~0ull, ~0ull, 20), word(0x1cb996fcu, 0xbb002be7u));
  EXPECT_EQ(threefry2x32(word(0x13198a2eu, 0x03707344u), word(0x243f6a88u, 0x85a308d3u), 20),
            word(0xc4923a9cu, 0x483df7a0u));
}

// J3
TEST(UniformTest, StaysBelowOne) {
  EXPECT_EQ(fold(Op::uniform, integer(u64, 0)).f, 0);
  EXPECT_LT(fold(Op::uniform, integer(u64, -1)).f, 1);
}

// J3
TEST(TypingTest, RefusesWhatHasNoCommonTypeAndConvertsTheRest) {
  EXPECT_FALSE(type_op(Op::add, std::array{u64, i32}));
  EXPECT_FALSE(type_op(Op::threefry, std::array{f32, u64}));
  EXPECT_FALSE(type_op(Op::uniform, std::array{f32}));
  EXPECT_EQ(type_op(Op::add, std::array{bool_, bool_})->result, i32);
  EXPECT_EQ(type_op(Op::add, std::array{f16, f16})->result, f32);
  EXPECT_EQ(type_op(Op::exp, std::array{i8})->result, f32);
  EXPECT_EQ(type_op(Op::lt, std::array{i8, f64})->operands, f64);
  EXPECT_EQ(type_op(Op::and_, std::array{u64, f32})->result, bool_);
}

// J2
TEST(NeutralTest, IsNeutralForEveryDtype) {
  for (std::size_t k = 0; k < dtype_count; ++k) {
    const auto t = static_cast<DType>(k);
    const Scalar x = is_floating(t) ? real(t, -2.5) : integer(t, 1);
    for (const Op op : {Op::max, Op::min}) {
      const auto e = neutral(op, t);
      ASSERT_TRUE(e.has_value());
      EXPECT_EQ(fold_op(op, std::array{*e, x}), x) << op_info(op).name << " " << name(t);
    }
  }
  EXPECT_EQ(neutral(Op::max, i16)->i, std::numeric_limits<std::int16_t>::min());
  EXPECT_EQ(neutral(Op::min, i16)->i, std::numeric_limits<std::int16_t>::max());
  EXPECT_EQ(neutral(Op::min, u64)->i, -1);
  EXPECT_FALSE(neutral(Op::fma, f32));
}

}  // namespace
}  // namespace heddle::jit
