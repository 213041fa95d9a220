// Products of integers of few bits: which factors lie in words, and that their sums are those of
// plain loops, whatever the bits.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "heddle/host_array.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/schedule/words.hpp"
#include "scheduled.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_contraction.hpp"
#include "support/seeds.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

std::int64_t words_of(const WordFactors& of, Isa isa) {
  const Loop loop = schedule(optimize(lower(word_product(of, 40, 64, 48))), tiny_target(isa)).loop;
  const std::string text = comments(loop);
  EXPECT_THAT(text, HasSubstr("contraction"));
  return text.find("in words of 4") != std::string::npos   ? 4
         : text.find("in words of 2") != std::string::npos ? 2
                                                           : 1;
}

// J9: words have the terms that their range leaves room for, by the instructions there are
TEST(WordsTest, HaveWhatFits) {
  struct Wanted {
    WordFactors of;
    std::int64_t avx2, vnni;
  };
  for (const auto& [of, avx2, vnni] : {
           Wanted{{u8, i8}, 2, 4},
           Wanted{{i8, u8}, 2, 4},
           Wanted{{i8, i8}, 2, 4},
           Wanted{{bool_, i8}, 2, 4},
           Wanted{{u8, u8}, 2, 2},
           Wanted{{i16, i8}, 2, 2},
           Wanted{{i16, i16}, 2, 2},
           Wanted{{u16, i8}, 1, 1},
           Wanted{{i32, i8}, 1, 1},
           Wanted{{u8, u8, FactorForm::plain, FactorForm::shifted}, 2, 4},
           Wanted{{u8, u8, FactorForm::shifted, FactorForm::shifted}, 2, 4},
           Wanted{{i8, i8, FactorForm::plain, FactorForm::doubled}, 2, 2},
           Wanted{{i8, i8, FactorForm::plain, FactorForm::negative}, 2, 4},
           Wanted{{i16, i16, FactorForm::negative, FactorForm::plain}, 2, 2},
           Wanted{{u16, i16, FactorForm::negative, FactorForm::plain}, 1, 1},
       }) {
    const std::string which = std::string(name(of.a)) + " and " + std::string(name(of.b));
    EXPECT_EQ(words_of(of, Isa::portable), 1) << which;
    EXPECT_EQ(words_of(of, Isa::avx2), avx2) << which;
    EXPECT_EQ(words_of(of, Isa::avx512), avx2) << which;
    EXPECT_EQ(words_of(of, Isa::avx512_vnni), vnni) << which;
  }
  // Sums of narrow types are made in 32 bits, and wrap when they are stored; wider ones are no
  // words.
  const Tensor a("a", i8, {40, 64}), b("b", i8, {64, 48}), wide("wide", i64, {40, 48}),
      few("few", i8, {40, 48});
  const Index i, j, k;
  Program of_wide("wide"), of_few("few");
  of_wide << (wide(i, j) = sum(cast(a(i, k), i64) * cast(b(k, j), i64)));
  of_few << (few(i, j) = sum(a(i, k) * b(k, j)));
  const auto scheduled = [](const Program& program) {
    return comments(schedule(optimize(lower(program)), tiny_target(Isa::avx512_vnni)).loop);
  };
  EXPECT_THAT(scheduled(of_wide), Not(HasSubstr("words")));
  EXPECT_THAT(scheduled(of_few), HasSubstr("in words of 4"));
}

// J9: intervals of values hold all that the operations can give
TEST(WordsTest, RangesAreThoseOfTheOperations) {
  const ValuePtr x = make_load(0, i8, {}), y = make_load(1, u8, {}), z = make_load(2, i32, {});
  const auto wide = [](const ValuePtr& value) { return make_cast(value, i32); };
  const auto constant = [](std::int64_t n) { return make_constant(Scalar::of_int(i32, n)); };
  const auto expect = [](const ValuePtr& value, std::int64_t lowest, std::int64_t highest) {
    const Interval found = range_of(*value);
    EXPECT_EQ(narrow(found.lowest), lowest);
    EXPECT_EQ(narrow(found.highest), highest);
  };
  constexpr std::int64_t least = std::numeric_limits<std::int32_t>::min();
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  expect(wide(x), -128, 127);
  expect(wide(y), 0, 255);
  expect(constant(-7), -7, -7);
  expect(make_op(Op::sub, {wide(x), wide(y)}), -383, 127);
  expect(make_op(Op::add, {wide(x), constant(128)}), 0, 255);
  expect(make_op(Op::mul, {wide(x), wide(y)}), -128 * 255, 127 * 255);
  expect(make_op(Op::mul, {wide(x), wide(x)}), -128 * 127, 128 * 128);
  expect(make_op(Op::neg, {wide(x)}), -127, 128);
  expect(make_op(Op::relu, {wide(x)}), 0, 127);
  expect(make_op(Op::max, {wide(x), constant(3)}), 3, 127);
  expect(make_op(Op::min, {wide(x), wide(y)}), -128, 127);
  expect(make_op(Op::where, {make_cast(z, bool_), wide(x), constant(1000)}), -128, 1000);
  // What wraps may be anything.
  expect(make_op(Op::add, {z, constant(1)}), least, most);
  expect(make_op(Op::mul, {z, wide(x)}), least, most);
  expect(make_op(Op::neg, {z}), least, most);
  expect(make_cast(z, i8), -128, 127);
  expect(make_cast(wide(y), i8), -128, 127);
  expect(make_cast(make_load(3, f32, {}), i32), least, most);
  expect(make_cast(make_load(4, i64, {}), i32), least, most);
  expect(make_op(Op::lt, {wide(x), wide(y)}), 0, 1);
}

// J9, B3: sums in words wrap as those of plain loops do, at any shape, with any bits
TEST(WordsTest, AreAsPlainLoops) {
  std::size_t in_words = 0;
  for (std::uint64_t seed = 1; seed <= test::seeds(150); ++seed) {
    const Lowered plain = optimize(lower(random_word_product(seed)));
    for (const Isa isa : {Isa::avx2, Isa::avx512_vnni}) {
      const Lowered scheduled = schedule(plain, tiny_target(isa));
      std::vector<HostArray> expected, found;
      for (std::size_t k = 0; k < scheduled.loop.buffers.size(); ++k) {
        found.push_back(any_bits(scheduled.loop.buffers[k].type, seed + k));
        if (k < plain.loop.buffers.size())
          expected.push_back(any_bits(plain.loop.buffers[k].type, seed + k));
      }
      interpret(plain.loop, expected);
      interpret(scheduled.loop, found);
      ASSERT_TRUE(same_elements(expected[2], found[2]))
          << "seed " << seed << " " << name(isa) << "\n"
          << print(scheduled.loop);
      in_words += comments(scheduled.loop).find("in words of") != std::string::npos ? 1 : 0;
    }
  }
  EXPECT_GT(in_words, test::seeds(150));
}

// B3: two terms of bf16 lie in a word where numbers may be less exact, and there are instructions
TEST(WordsTest, PairsOfBf16AreForFastMath) {
  const auto scheduled = [](const Program& program, Isa isa, bool fast_math) {
    return comments(
        schedule(optimize(lower(program)), tiny_target(isa), {}, {}, {}, fast_math).loop);
  };
  const auto product = [](DType of_a, DType of_b, DType sums) {
    const Tensor a("a", of_a, {40, 64}), b("b", of_b, {64, 48}), c("c", sums, {40, 48});
    const Index i, j, k;
    Program program("product");
    program << (c(i, j) += cast(a(i, k), sums) * cast(b(k, j), sums));
    return program;
  };
  const Program pairs = product(bf16, bf16, f32);
  EXPECT_THAT(scheduled(pairs, Isa::avx512_bf16, true), HasSubstr("in words of 2"));
  EXPECT_THAT(scheduled(pairs, Isa::avx512_bf16, false), Not(HasSubstr("words")));
  EXPECT_THAT(scheduled(pairs, Isa::avx512_vnni, true), Not(HasSubstr("words")));
  for (const Program& other : {product(bf16, f32, f32), product(f32, bf16, f32),
                               product(f16, f16, f32), product(bf16, bf16, f64)}) {
    EXPECT_THAT(scheduled(other, Isa::avx512_bf16, true), Not(HasSubstr("words")));
  }
}

// J9: every term of a pair is in its sum, at any shape
TEST(WordsTest, PairsOfBf16AddUp) {
  std::size_t in_words = 0;
  for (std::uint64_t seed = 1; seed <= test::seeds(60); ++seed) {
    const Lowered plain = optimize(lower(random_bf16_product(seed)));
    const Lowered scheduled = schedule(plain, tiny_target(Isa::avx512_bf16), {}, {}, {}, true);
    std::vector<HostArray> expected, found;
    for (std::size_t k = 0; k < scheduled.loop.buffers.size(); ++k) {
      found.push_back(small_numbers(scheduled.loop.buffers[k].type, seed + k));
      if (k < plain.loop.buffers.size())
        expected.push_back(small_numbers(plain.loop.buffers[k].type, seed + k));
    }
    interpret(plain.loop, expected);
    interpret(scheduled.loop, found);
    for (std::size_t k = 0; k < expected.size(); ++k) {
      ASSERT_TRUE(same_elements(expected[k], found[k])) << "seed " << seed << "\n"
                                                        << print(scheduled.loop);
    }
    in_words += comments(scheduled.loop).find("in words of") != std::string::npos ? 1 : 0;
  }
  EXPECT_GT(in_words, test::seeds(60) / 2);
}

}  // namespace
}  // namespace heddle::jit::testing
