// Sums of short rows that statements before have read at positions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "jit/schedule/sums_of_stored_rows.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

const std::string weighted_rows =
    "for i0 in 0..40 { for i1 in 0..4 { nearest i2 in 0..20 = t0[i0, i1] { for i3 in 0..3 {\n"
    "t2[i0, i1, i3] = mul.f32(t1[i2, i3], t3[i0])\n} } } }\n";

std::string sum_of(const std::string& term, int terms = 4) {
  return fmt::format(
      "for i4 in 0..40 {{ for i5 in 0..3 {{ let x0: f32 = 0:f32\nfor i6 in 0..{} {{\n"
      "x0 = add.f32(x0, {})\n}}\nt4[i4, i5] = x0\n}} }}\n",
      terms, term);
}

/// Whether the sum reads the rows of the scratch t2 itself; numbers stay in any case.
bool joins_rows(const std::string& body) {
  const Lowered plain = lowered_from(
      "buffer t0 input i32[40,4]\nbuffer t1 input f32[20,3]\nbuffer t2 scratch f32[40,4,3]\n"
      "buffer t3 output f32[40]\nbuffer t4 output f32[40,3]\nkernel {\n" +
      body + "}\n");
  expect_unchanged(plain);
  Lowered made = plain;
  const Target target = with_isa(native_target(), Isa::avx512);
  Scheduling in{made, target, Fresh(made.loop), {}};
  join_stored_rows(in);
  EXPECT_EQ(made.loop.body.size() < plain.loop.body.size(),
            made.loop.buffers[2].type.num_elements() == 1);
  return made.loop.body.size() < plain.loop.body.size();
}

// J9: rows of one statement, and rows of a statement for each term, are terms of one loop
TEST(SumsOfStoredRowsTest, TermsAreReadAtPositions) {
  EXPECT_TRUE(joins_rows(weighted_rows + sum_of("t2[i4, i6, i5]")));
  EXPECT_TRUE(joins_rows(weighted_rows + sum_of("mul.f32(t2[i4, i6, i5], t1[i6, i5])", 3)))
      << "a part of the rows";
  std::string stack;
  for (const int k : {0, 1, 2, 3})
    stack += fmt::format(
        "for i{0} in 0..40 {{ nearest i{1} in 0..20 = t0[i{0}, {2}] {{ for i{3} in 0..3 {{\n"
        "t2[i{0}, {2}, i{3}] = t1[i{1}, i{3}]\n}} }} }}\n",
        10 + 3 * k, 11 + 3 * k, k, 12 + 3 * k);
  EXPECT_TRUE(joins_rows(stack + sum_of("t2[i4, i6, i5]")));
}

// J9: rows that others read or that are read otherwise, and what changes before the sum, stay
TEST(SumsOfStoredRowsTest, OthersStay) {
  const std::string sum = sum_of("t2[i4, i6, i5]");
  EXPECT_FALSE(joins_rows(weighted_rows + sum + "t3[3] = t2[1, 2, 0]\n"));
  EXPECT_FALSE(joins_rows(weighted_rows + sum_of("add.f32(t2[i4, i6, i5], t2[i4, 0, i5])")));
  EXPECT_FALSE(joins_rows(weighted_rows + "t3[5] = 9:f32\n" + sum));
  EXPECT_FALSE(joins_rows("zero t2\n" + weighted_rows + sum));
  EXPECT_FALSE(
      joins_rows("for i0 in 0..40 { nearest i2 in 0..20 = t0[i0, 1] { for i3 in 0..3 {\n"
                 "t2[i0, 1, i3] = t1[i2, i3]\n} } }\n" +
                 sum))
      << "rows that nothing stores";
  const auto again = [](const std::string& place) {
    return "for i7 in 0..40 { nearest i8 in 0..20 = t0[i7, 0] { for i9 in 0..3 {\nt2[i7, " + place +
           ", i9] = t1[i8, i9]\n} } }\n";
  };
  EXPECT_FALSE(joins_rows(weighted_rows + again("0") + sum)) << "rows that are stored twice";
  EXPECT_FALSE(joins_rows(weighted_rows + sum_of("t2[i5, i6, i5]"))) << "the row is a place, too";
  EXPECT_FALSE(joins_rows(weighted_rows + sum_of("t2[3, i6, i5]"))) << "rows that all sums read";
}

}  // namespace
}  // namespace heddle::jit::testing
