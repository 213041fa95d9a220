// bitcast(), on every backend: all 16-bit patterns, and edge cases of wider types.
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <vector>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

class BitcastTest : public Conformance {
 protected:
  /// Takes `bits` as the memory of a `from`, and returns the bitcast to a `to`.
  template <class Bits, class To>
  std::vector<To> run(DType from, DType to, const std::vector<Bits>& bits) {
    const Dims dims{static_cast<std::int64_t>(bits.size())};
    const Tensor x("x", from, dims), y("y", to, dims);
    const Index i;
    Program program("bitcast");
    program << (y(i) = bitcast(x(i), to));
    const Routine routine = Context(device).link(backend.compile(program));
    const Context& context = routine.context();
    throw_if_failed(context.view(x).from_host(device, std::as_bytes(std::span(bits))).wait());
    routine.schedule();
    std::vector<To> result(bits.size());
    throw_if_failed(
        context.view(y).to_host(device, std::as_writable_bytes(std::span(result))).wait());
    return result;
  }
};
HEDDLE_CONFORMANCE_SUITE(BitcastTest);

using Bits16 = std::vector<std::uint16_t>;

Bits16 all_patterns() {
  Bits16 all(65536);
  std::iota(all.begin(), all.end(), std::uint16_t{0});
  return all;
}

/// Replaces every NaN, a pattern above `infinity` with either sign, by the canonical NaN.
Bits16 with_one_nan(std::uint16_t infinity, std::uint16_t nan) {
  Bits16 all = all_patterns();
  for (std::uint16_t& bits : all) {
    if ((bits & 0x7fff) > infinity) bits = nan;
  }
  return all;
}

// J3: the bits of every 16-bit float, in both directions
TEST_P(BitcastTest, TakesEvery16BitPattern) {
  const Bits16 all = all_patterns();
  const Bits16 f16_bits = with_one_nan(0x7c00, 0x7e00);
  const Bits16 bf16_bits = with_one_nan(0x7f80, 0x7fc0);
  EXPECT_EQ((run<std::uint16_t, std::uint16_t>(f16, u16, all)), f16_bits);
  EXPECT_EQ((run<std::uint16_t, std::uint16_t>(bf16, u16, all)), bf16_bits);
  for (const bool half : {true, false}) {
    const auto back = run<std::uint16_t, std::uint16_t>(u16, half ? f16 : bf16, all);
    const std::uint16_t infinity = half ? 0x7c00 : 0x7f80;
    for (std::size_t k = 0; k < all.size(); ++k) {
      const bool nan = (all[k] & 0x7fff) > infinity;
      ASSERT_TRUE(nan ? (back[k] & 0x7fff) > infinity : back[k] == all[k]) << k << ' ' << back[k];
    }
  }
}

// J3, B3: edge cases of the wider types; one NaN stands for every NaN, because machines differ in
// NaN bits
TEST_P(BitcastTest, KeepsTheBitsOfWiderTypes) {
  const std::vector<std::uint32_t> floats{0,          0x80000000, 1,          0x807fffff,
                                          0x3f800000, 0x7f7fffff, 0xff800000, 0x7f800000,
                                          0xffc00001, 0x7f800001, 0xffffffff};
  const std::vector<std::uint32_t> one_nan{0,          0x80000000, 1,          0x807fffff,
                                           0x3f800000, 0x7f7fffff, 0xff800000, 0x7f800000,
                                           0x7fc00000, 0x7fc00000, 0x7fc00000};
  EXPECT_EQ((run<std::uint32_t, std::uint32_t>(f32, u32, floats)), one_nan);
  EXPECT_EQ((run<std::uint32_t, std::uint32_t>(f32, i32, floats)), one_nan);
  std::vector<std::uint32_t> numbers(floats.begin(), floats.end() - 3);
  EXPECT_EQ((run<std::uint32_t, std::uint32_t>(u32, f32, numbers)), numbers);
  EXPECT_EQ((run<std::uint32_t, std::uint32_t>(i32, f32, numbers)), numbers);
  const std::vector<std::uint64_t> wide{0, 1, std::uint64_t{1} << 63U,
                                        std::bit_cast<std::uint64_t>(-1.5),
                                        std::bit_cast<std::uint64_t>(HUGE_VAL)};
  EXPECT_EQ((run<std::uint64_t, std::uint64_t>(f64, i64, wide)), wide);
  EXPECT_EQ((run<std::uint64_t, std::uint64_t>(u64, f64, wide)), wide);
  EXPECT_EQ((run<std::uint8_t, std::int8_t>(u8, i8, {0, 127, 128, 255})),
            (std::vector<std::int8_t>{0, 127, -128, -1}));
  EXPECT_EQ((run<std::uint8_t, std::uint8_t>(bool_, u8, {0, 1})),
            (std::vector<std::uint8_t>{0, 1}));
}

// J3: refuses types of different sizes, and bools from bits other than 0 and 1
TEST_P(BitcastTest, RefusesWhatHasNoSuchBits) {
  const Tensor x("x", f32, {2});
  const Index i;
  EXPECT_EQ(failure([&] { bitcast(x(i), u64); }).message(),
            "'bitcast' of x(i0) (f32) to u64: it has 8 bytes, not 4; convert with cast(x, dtype) "
            "first");
  const Tensor b("b", u8, {2});
  EXPECT_THAT(failure([&] { bitcast(b(i), bool_); }).message(),
              testing::HasSubstr("not all bits are those of a bool; compare with 0"));
}

}  // namespace
}  // namespace heddle
