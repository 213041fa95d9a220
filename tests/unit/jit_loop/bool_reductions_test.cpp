// Reductions of tests.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

/// The schedule of a reduction of rows of 70 elements, whose results stay.
std::string tests_of_rows(const std::string& start, const std::string& step) {
  const Lowered plain = lowered_from(
      "buffer t0 input f32[40,70]\nbuffer t1 input f32[40]\nbuffer t2 output bool[40]\n"
      "buffer t3 input u8[40,70]\nbuffer t4 input f64[40,70]\nbuffer t5 input bool[40,70]\n"
      "kernel {\nfor i0 in 0..40 {\nlet x0: bool = " +
      start + ":bool\nfor i1 in 0..70 {\n" + step + "\n}\nt2[i0] = x0\n}\n}\n");
  expect_unchanged(plain);
  return print(schedule(plain, with_isa(native_target(), Isa::avx512)).loop);
}

// J9: tests of elements of one size are reduced as integers of that size, in vectors
TEST(BoolReductionsTest, TestsAreReducedAsIntegers) {
  const std::string any = "x0 = or.bool(x0, lt.f32(3:f32, t0[i0, i1]))";
  EXPECT_THAT(tests_of_rows("0", any), HasSubstr("# reduction"));
  EXPECT_THAT(tests_of_rows("1", any), HasSubstr("# reduction"));
  EXPECT_THAT(tests_of_rows("1", "x0 = and.bool(le.f32(t0[i0, i1], t1[i0]), x0)"),
              HasSubstr("# reduction"));
  EXPECT_THAT(tests_of_rows("1", "x0 = and.bool(x0, lt.f64(t4[i0, i1], 5:f64))"),
              HasSubstr("min.i64"));
  EXPECT_THAT(tests_of_rows("0", "x0 = or.bool(x0, eq.u8(t3[i0, i1], 3:u8))"),
              HasSubstr("max.i32"));
}

// J9: bools of memory, elements of several sizes, and other steps stay
TEST(BoolReductionsTest, OthersStay) {
  const auto stays = [](const std::string& step) {
    EXPECT_THAT(tests_of_rows("0", step), Not(HasSubstr("where"))) << step;
  };
  stays("x0 = or.bool(x0, t5[i0, i1])");
  stays("x0 = or.bool(x0, and.bool(lt.f32(3:f32, t0[i0, i1]), lt.f64(3:f64, t4[i0, i1])))");
  stays("x0 = or.bool(x0, lt.f32(3:f32, t0[i0, i1]))\nx0 = and.bool(x0, lt.f32(t1[i0], 9:f32))");
  stays("x0 = lt.f32(3:f32, t0[i0, i1])");
}

}  // namespace
}  // namespace heddle::jit::testing
