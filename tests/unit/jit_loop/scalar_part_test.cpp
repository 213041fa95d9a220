// The scalar code that takes longest, and its causes.
#include "jit/schedule/scalar_part.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "heddle/program.hpp"
#include "jit/schedule/schedule.hpp"

namespace heddle::jit {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string slow_part_of(const Program& program, Isa isa = Isa::avx2) {
  const Target target{isa, 48 << 10, 2 << 20, 32 << 20};
  const Lowered lowered = schedule(optimize(lower(program)), target);
  const auto part = longest_scalar_part(lowered, target);
  if (!part) return {};
  return text_of(*part, [&](BufferId k) { return std::string_view(lowered.tensors[k].label()); });
}

constexpr std::int64_t n = 1000;

struct ScalarPartTest : ::testing::Test {
  Tensor x{"x", f32, {n, n}}, y{"y", f32, {n, n}}, rows{"rows", i32, {n}};
  Index i, j;
  Program program{"p"};
};

// J9: code that runs as vectors has nothing to tell, nor has a small part beside it
TEST_F(ScalarPartTest, VectorsAreNotTold) {
  const Tensor few("few", f32, {n});
  program << (y(i, j) = exp(x(i, j))) << (few(i) = x(i, 0) + rows(i));
  EXPECT_EQ(slow_part_of(program), "");
  EXPECT_EQ(slow_part_of(program, Isa::none), "") << "nothing is to become vectors";
}

// J9: the cause names the array and the types
TEST_F(ScalarPartTest, CausesAreNamed) {
  const Tensor wide("wide", f64, {n, n}), bytes("bytes", u8, {n, n}),
      third("third", f32, {n, 3 * n}), sums("sums", f32, {n});
  const auto told = [&](const Statement& statement) {
    Program one("one");
    one << statement;
    return slow_part_of(one);
  };
  EXPECT_THAT(
      told(y(i, j) = exp(x(i, j)) * wide(i, j)),
      StartsWith("'y' takes 100 % of the estimated time, as scalar code: it computes with "));
  EXPECT_THAT(told(y(i, j) = exp(x(i, j)) * wide(i, j)), HasSubstr("differ in size"));
  EXPECT_THAT(told(bytes(i, j) = bytes(i, j) * 3), HasSubstr("u8, which has no vector code"));
  EXPECT_THAT(told(y(i, j) = exp(third(i, 3 * j))), HasSubstr("'third' in steps of 3 elements"));
  EXPECT_THAT(told(y(i, at(rows(j))) += exp(x(i, j))),
              HasSubstr("it writes 'y' at computed positions"));
  EXPECT_THAT(told(y(i, j) = exp(x(i, at(rows(j))))),
              HasSubstr("it reads 'x' at computed positions"));
}

// J9: small kernels are not worth a word
TEST_F(ScalarPartTest, ShortKernelsAreNotTold) {
  const Tensor a("a", f32, {30}), b("b", f64, {30});
  program << (a(i) = exp(b(i)));
  EXPECT_EQ(slow_part_of(program), "");
}

}  // namespace
}  // namespace heddle::jit
