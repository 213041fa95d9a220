// Rows that are computed from the rows before: their interface, and the loops that follow them.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "jit/schedule/shrunk_scratch.hpp"
#include "support/parsed.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

BufferAccess access_of(const std::string& body) {
  return read_interface(parsed("buffer t0 inout f32[5,4]\nkernel {\n" + body + "}\n")).buffers[0];
}
std::string rows(int from, int to, const std::string& store) {
  return "for i1 in " + std::to_string(from) + ".." + std::to_string(to) + " { for i2 in 0..4 { " +
         store + " } }\n";
}

// J8, D2: a row that earlier iterations wrote, or an earlier statement, is not the array's before
TEST(RecurrentLoopsTest, RowsBeforeAreWritten) {
  const std::string first = "for i0 in 0..4 { t0[0, i0] = 1:f32 }\n";
  const std::string last = "for i0 in 0..4 { t0[4, i0] = 1:f32 }\n";
  const std::string next = "t0[i1 + 1, i2] = add.f32(t0[i1, i2], 1:f32)";
  EXPECT_TRUE(access_of(first + rows(0, 4, next)).overwrites_whole);
  EXPECT_FALSE(access_of(first + rows(0, 3, next)).overwrites_whole) << "the last row is not";
  EXPECT_TRUE(access_of(last + rows(0, 4, next)).reads_before_writing) << "the first row is not";
  EXPECT_TRUE(access_of(first + rows(0, 3, "t0[i1 + 2, i2] = add.f32(t0[i1, i2], 1:f32)"))
                  .reads_before_writing)
      << "nor is the second";
  EXPECT_TRUE(access_of(first + rows(0, 4, "t0[i1 + 1, i2] = add.f32(t0[i1, 0], 1:f32)"))
                  .reads_before_writing)
      << "another element";
  const std::string down = "t0[-i1 + 3, i2] = add.f32(t0[-i1 + 4, i2], 1:f32)";
  EXPECT_TRUE(access_of(last + rows(0, 4, down)).overwrites_whole);
  EXPECT_TRUE(access_of(first + rows(0, 4, down)).reads_before_writing);
  // A row after: nothing wrote it before.
  EXPECT_TRUE(access_of(last + rows(0, 4, "t0[i1, i2] = add.f32(t0[i1 + 1, i2], 1:f32)"))
                  .reads_before_writing);
  EXPECT_TRUE(access_of(first + "for i1 in 0..4 { at i2 in 0..4 = index(i1) { t0[i1 + 1, i2] = "
                                "add.f32(t0[i1, i2], 1:f32) } }\n")
                  .reads_before_writing)
      << "perhaps not everywhere";
}

class RecurrentSchedulesTest : public ::testing::Test {
 protected:
  /// The nests of the schedule, whose numbers are those without it; the rows that each buffer has.
  static std::int64_t nests(const Program& program) {
    expect_unchanged(program);
    const std::vector<ScheduleStep> others{ScheduleStep::elementwise, ScheduleStep::parallel};
    const Loop loop = schedule(optimize(lower(program)), tiny_target(Isa::avx2), others).loop;
    return std::ranges::count(loop.body, StmtKind::loop, &Stmt::kind);
  }
  static std::int64_t rows_of(const Program& program, const Tensor& tensor) {
    const Lowered made = schedule(optimize(lower(program)), tiny_target(Isa::avx2));
    const auto at = std::ranges::find(made.tensors, tensor.label(), &Tensor::label);
    return made.loop.buffers[static_cast<std::size_t>(at - made.tensors.begin())].type.dims[0];
  }

  Index i{20}, i1{19}, j{30};
  Tensor x{"x", f32, {20, 30}}, y{"y", f32, {20, 30}}, sums{"sums", f32, {20, 30}};
};

// J9: what follows running sums of rows is computed row by row with them, and a row is all of the
// sums that is kept
TEST_F(RecurrentSchedulesTest, RowsFollowSums) {
  Program program("program");
  program << (sums(0, j) = x(0, j) * 2) << (sums(i1 + 1, j) = sums(i1, j) + x(i1 + 1, j) * 2)
          << (y(i, j) = sums(i, j) / 2);
  EXPECT_EQ(nests(program), 2) << "the first row, and the others";
  EXPECT_EQ(rows_of(program, sums), 1);
}

// J9: rows that are read again later, or next to the element, are kept
TEST_F(RecurrentSchedulesTest, RowsThatAreReadOtherwiseStay) {
  const Tensor last("last", f32, {30});
  Program later("later"), beside("beside"), next("next");
  later << (sums(0, j) = x(0, j)) << (sums(i1 + 1, j) = sums(i1, j) + x(i1 + 1, j))
        << (y(i, j) = sums(i, j) / 2) << (last(j) = sums(10, j));
  expect_unchanged(later);
  EXPECT_EQ(rows_of(later, sums), 20);
  const Index k(29);
  beside << (sums(i, j) = x(i, j)) << (sums(i1 + 1, k + 1) = sums(i1, k) + x(i1 + 1, k + 1))
         << (y(i, j) = sums(i, j) / 2);
  expect_unchanged(beside);
  EXPECT_EQ(rows_of(beside, sums), 20);
  next << (sums(0, j) = x(0, j)) << (sums(i1 + 1, j) = sums(i1, j) + x(i1 + 1, j))
       << (y(i1, j) = sums(i1 + 1, j) - sums(i1, j)) << (y(19, j) = 0);
  expect_unchanged(next);
  EXPECT_EQ(rows_of(next, sums), 20);
}

// J9: a product of running rows stays whole
TEST_F(RecurrentSchedulesTest, ProductsOfRowsStayWhole) {
  const Tensor w("w", f32, {30, 16}), product("product", f32, {20, 16});
  const Index k(16);
  Program program("program");
  program << (sums(0, j) = x(0, j)) << (sums(i1 + 1, j) = sums(i1, j) + x(i1 + 1, j))
          << (product(i, k) = sum(sums(i, j) * w(j, k)));
  expect_unchanged(program);
  const std::string text =
      comments(schedule(optimize(lower(program)), tiny_target(Isa::avx2)).loop);
  EXPECT_EQ(text.find("contraction"), text.rfind("contraction")) << text;
  EXPECT_NE(text.find("contraction"), std::string::npos);
}

// J9: a row that an inner loop stores again and again, each time from the row before, keeps both
TEST(RecurrentLoopsTest, RowsStoredAgainStay) {
  Lowered made;
  made.loop = parsed(
      "buffer t0 scratch f32[5,4]\nbuffer t1 input f32[5,4]\nbuffer t2 output f32[5,4]\nkernel {\n"
      "for i0 in 0..4 { t0[0, i0] = t1[0, i0] }\n"
      "for i1 in 0..4 { for i2 in 0..3 { for i3 in 0..4 {\n"
      "t0[i1 + 1, i3] = add.f32(t0[i1, i3], t1[i2, i3]) } }\n"
      "for i4 in 0..4 { t2[i1, i4] = t0[i1 + 1, i4] } }\n}\n");
  for (const BufferDecl& decl : made.loop.buffers)
    made.tensors.emplace_back("t", decl.type.dtype, decl.type.dims);
  shrink_scratch(made);
  EXPECT_EQ(made.loop.buffers[0].type.dims[0], 5);
}

// J9: a loop over single elements that depend on each other joins no loop that may be vectors
TEST_F(RecurrentSchedulesTest, ElementsStayApart) {
  const Tensor line("line", f32, {30}), run("run", f32, {30}), half("half", f32, {30});
  const Index k(29);
  Program program("program");
  program << (run(0) = line(0)) << (run(k + 1) = run(k) + line(k + 1)) << (half(j) = run(j) / 2);
  EXPECT_EQ(nests(program), 2);
}

}  // namespace
}  // namespace heddle::jit::testing
