// Element types: sizes, 16-bit conversions over their whole range, promotion. Single-threaded.
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

#include "heddle/types.hpp"
#include "jit/value/ops.hpp"

namespace heddle {
namespace {

using jit::promote;

// J1
TEST(DTypeTest, NamesRoundTripAndSizesAreThoseOfTheCppTypes) {
  for (std::size_t k = 0; k < dtype_count; ++k) {
    const auto t = static_cast<DType>(k);
    EXPECT_EQ(parse_dtype(name(t)), t);
  }
  EXPECT_FALSE(parse_dtype("f8").has_value());
  EXPECT_EQ(size_of(bool_), sizeof(bool));
  EXPECT_EQ(size_of(i16), 2u);
  EXPECT_EQ(size_of(u64), 8u);
  EXPECT_EQ(size_of(bf16), sizeof(BFloat16));
  EXPECT_EQ(size_of(f16), sizeof(Float16));
}

// J1: the text of an array's type is that of one type alone
TEST(DTypeTest, ArrayTypesRoundTrip) {
  for (const char* const text : {"f32[]", "i8[0]", "bool[2,3,4]", "u64[9223372036854775807]"}) {
    const auto type = ArrayType::parse(text);
    ASSERT_TRUE(type.has_value()) << text;
    EXPECT_EQ(type->to_string(), text);
  }
  for (const char* const text :
       {"", "f32", "f8[2]", "f32[2", "f32]2[", "f32[2,]", "f32[,2]", "f32[2,,3]", "f32[-1]",
        "f32[ 2]", "f32[2]x", "f32[9223372036854775808]", "f32[2.5]", "f32[-0]", "f32[007]", "[2]"})
    EXPECT_FALSE(ArrayType::parse(text).has_value()) << text;
}

// J1, O49: one meaning of half precision everywhere
TEST(DTypeTest, EveryHalfSurvivesTheWayThroughFloat) {
  for (std::uint32_t bits = 0; bits < 0x10000u; ++bits) {
    Float16 h;
    h.bits = static_cast<std::uint16_t>(bits);
    const auto wide = static_cast<float>(h);
    if (std::isnan(wide)) {
      EXPECT_TRUE(std::isnan(static_cast<float>(Float16(wide))));
    } else {
      EXPECT_EQ(Float16(wide).bits, h.bits) << bits;
    }
  }
}

// J1
TEST(DTypeTest, FloatToHalfRoundsToNearestEvenAgainstTheNeighbours) {
  // For each pair of adjacent finite halves: the midpoint goes to the even one, its neighbours to
  // their side.
  for (std::uint16_t bits = 0; bits < 0x7bffu; ++bits) {
    Float16 low;
    Float16 high;
    low.bits = bits;
    high.bits = static_cast<std::uint16_t>(bits + 1);
    const float a = static_cast<float>(low);
    const float b = static_cast<float>(high);
    const float middle = a + (b - a) / 2;  // exact in binary32
    const std::uint16_t even = (bits & 1u) == 0 ? low.bits : high.bits;
    EXPECT_EQ(Float16(middle).bits, even);
    EXPECT_EQ(Float16(std::nextafter(middle, a)).bits, low.bits);
    EXPECT_EQ(Float16(std::nextafter(middle, b)).bits, high.bits);
    EXPECT_EQ(Float16(-middle).bits, even | 0x8000u);
  }
  EXPECT_EQ(Float16(65519.0f).bits, 0x7bffu);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00u);
  EXPECT_EQ(Float16(std::numeric_limits<float>::infinity()).bits, 0x7c00u);
  EXPECT_EQ(Float16(-0.0f).bits, 0x8000u);
}

// J1
TEST(DTypeTest, FloatToBFloatRoundsToNearestEven) {
  for (std::uint32_t bits = 0; bits < 0x7f80u; ++bits) {
    BFloat16 low;
    low.bits = static_cast<std::uint16_t>(bits);
    const auto exact = std::bit_cast<std::uint32_t>(static_cast<float>(low));
    EXPECT_EQ(BFloat16(std::bit_cast<float>(exact)).bits, bits);
    EXPECT_EQ(BFloat16(std::bit_cast<float>(exact | 0x7fffu)).bits, bits);
    EXPECT_EQ(BFloat16(std::bit_cast<float>(exact | 0x8001u)).bits, bits + 1);
    EXPECT_EQ(BFloat16(std::bit_cast<float>(exact | 0x8000u)).bits, bits + (bits & 1u));
  }
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(std::nanf("")))));
}

// J1
TEST(PromotionTest, IsCommutativeAndIdempotentAndJoinsUpward) {
  for (std::size_t a = 0; a < dtype_count; ++a) {
    for (std::size_t b = 0; b < dtype_count; ++b) {
      const auto x = static_cast<DType>(a);
      const auto y = static_cast<DType>(b);
      EXPECT_EQ(promote(x, y), promote(y, x));
      if (const auto joined = promote(x, y)) {
        EXPECT_EQ(promote(*joined, x), joined) << name(x) << " " << name(y);
      }
    }
    EXPECT_EQ(promote(static_cast<DType>(a), static_cast<DType>(a)), static_cast<DType>(a));
  }
}

// J1
TEST(PromotionTest, TableOfMixedKinds) {
  EXPECT_EQ(promote(bool_, u8), u8);
  EXPECT_EQ(promote(u8, i8), i16);
  EXPECT_EQ(promote(u8, i32), i32);
  EXPECT_EQ(promote(u16, i16), i32);
  EXPECT_EQ(promote(u32, i8), i64);
  EXPECT_EQ(promote(u32, u16), u32);
  EXPECT_EQ(promote(i64, f16), f16);
  EXPECT_EQ(promote(f16, bf16), f32);
  EXPECT_EQ(promote(bf16, f32), f32);
  EXPECT_EQ(promote(f32, f64), f64);
  EXPECT_EQ(promote(u64, i8), std::nullopt);
  EXPECT_EQ(promote(u64, i64), std::nullopt);
  EXPECT_EQ(promote(u64, u8), u64);
}

// D3
TEST(ArrayTypeTest, CountsElementsAndBytesAndSeesOverflow) {
  EXPECT_EQ((ArrayType{f32, {}}.num_elements()), 1);
  EXPECT_EQ((ArrayType{f32, {3, 0, 5}}.num_elements()), 0);
  EXPECT_EQ((ArrayType{f64, {3, 5}}.num_bytes()), 120);
  EXPECT_EQ((ArrayType{u8, {std::int64_t{1} << 40}}.num_bytes()), std::int64_t{1} << 40);
  EXPECT_FALSE((ArrayType{u8, {std::int64_t{1} << 32, std::int64_t{1} << 31}}.num_elements()));
  EXPECT_FALSE((ArrayType{f64, {std::int64_t{1} << 61}}.num_bytes()));
  EXPECT_FALSE((ArrayType{f64, {-1}}.num_elements()));
  EXPECT_EQ((ArrayType{f32, {64, 128}}.to_string()), "f32[64,128]");
  EXPECT_EQ((ArrayType{bool_, {}}.to_string()), "bool[]");
}

// D3: an empty array beside huge extents is still empty
TEST(ArrayTypeTest, EmptyWinsOverOverflow) {
  EXPECT_EQ((ArrayType{f64, {0, std::int64_t{1} << 62, 8}}.num_elements()), 0);
}

}  // namespace
}  // namespace heddle
