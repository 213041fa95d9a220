// Sums of a few short rows at positions.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "jit/schedule/sums_of_rows.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

struct RowSum {
  int elements = 3, terms = 4;
  std::string position = "nearest i3 in 0..20 = t0[i0, i2]";
  std::string term = "x0 = add.f32(x0, t1[i3, i1])";
  std::string rest = "t2[i0, i1] = div.f32(x0, 3:f32)";
};

/// Whether the terms become one loop along the row; numbers stay in any case.
bool unrolls(const RowSum& sum) {
  const Lowered plain = lowered_from(fmt::format(
      "buffer t0 input i32[40,25]\nbuffer t1 input f32[20,16]\nbuffer t2 output f32[40,16]\n"
      "buffer t3 output i32[40,25]\nkernel {{\nfor i0 in 0..40 {{ for i1 in 0..{} {{\n"
      "let x0: f32 = 0:f32\nfor i2 in 0..{} {{ {} {{ {} }} }}\n{}\n}} }}\n}}\n",
      sum.elements, sum.terms, sum.position, sum.term, sum.rest));
  expect_unchanged(plain);
  Fresh fresh(plain.loop);
  const Block made = with_sums_of_rows(fresh, plain.loop.body);
  bool has_terms = false;
  walk(made, [&](const Stmt& stmt) {
    has_terms = has_terms || (stmt.kind == StmtKind::loop && stmt.var == 2);
  });
  return !has_terms;
}

// J9: the row is the innermost loop, whatever the reduction and however many positions a term has
TEST(SumsOfRowsTest, TermsAreOfOneLoop) {
  EXPECT_TRUE(unrolls({}));
  EXPECT_TRUE(unrolls({.terms = 14, .term = "x0 = max.f32(x0, t1[i3, i1])"}));
  EXPECT_TRUE(unrolls({.elements = 15, .term = "let x1: f32 = t1[i3, i1]\nx0 = add.f32(x0, x1)"}));
  EXPECT_TRUE(unrolls({.position = "nearest i3 in 0..20 = t0[i0, i2] { nearest i4 in 0..16 = "
                                   "t0[i0 + 0, 3]",
                       .term = "x0 = add.f32(x0, mul.f32(t1[i3, i1], t1[i3, i4])) }"}));
}

// J9: long rows, many terms, and positions that differ along the row or change, stay
TEST(SumsOfRowsTest, OthersStay) {
  EXPECT_FALSE(unrolls({.elements = 16}));
  EXPECT_FALSE(unrolls({.terms = 25}));
  EXPECT_FALSE(unrolls({.position = "at i3 in 0..20 = t0[i0, i2]"}));
  EXPECT_FALSE(unrolls({.position = "nearest i3 in 0..20 = t0[i0, i1]"}));
  EXPECT_FALSE(unrolls({.position = "nearest i3 in 0..20 = t3[i0, i2]",
                        .rest = "t3[i0, i1 + 1] = 3:i32\nt2[i0, i1] = x0"}));
}

}  // namespace
}  // namespace heddle::jit::testing
