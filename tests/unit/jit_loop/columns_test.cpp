// Sums along columns, and when they are read along rows.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "support/parsed.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

// J9: sums of columns that no vectors compute, as they read and add different widths, are read
// along rows as others are, where no column needs another one's sum
TEST(ColumnsTest, OtherWidthsAreReadAlongRows) {
  const Tensor x("x", u8, {37, 150}), columns("columns", i64, {150}), rows("rows", i64, {37}),
      chain("chain", i64, {151});
  const Index i, j(150);
  const auto made = [](const Program& program) {
    expect_unchanged(program);
    return comments(schedule(optimize(lower(program)), tiny_target(Isa::avx512)).loop);
  };
  const Tensor cube("cube", u8, {5, 37, 150}), turned("turned", u8, {150, 37});
  const Index k;
  Program along("along"), across("across"), carried("carried"), both("both"), two("two");
  along << (columns(j) = sum(cast(x(i, j), i64)));
  EXPECT_NE(made(along).find("columns at once, 4 rows"), std::string::npos);
  across << (rows(i) = sum(cast(x(i, j), i64)));
  EXPECT_EQ(made(across).find("columns at once"), std::string::npos);
  const Tensor terms("terms", u8, {37});  // as long as columns are, and the same for each
  Program scaled("scaled");
  scaled << (columns(j) = sum(cast(x(i, j), i64) + cast(terms(i), i64)));
  EXPECT_NE(made(scaled).find("columns at once, 4 rows"), std::string::npos);
  two << (columns(j) = sum(cast(cube(k, i, j), i64)));
  EXPECT_NE(made(two).find("columns at once, 4 rows"), std::string::npos);
  both << (columns(j) = sum(cast(x(i, j), i64) * cast(turned(j, i), i64)));
  EXPECT_EQ(made(both).find("columns at once"), std::string::npos);
  carried << (chain(j + 1) = sum(cast(x(i, j), i64) + chain(j)));
  EXPECT_EQ(made(carried).find("columns at once"), std::string::npos);
}

// J9: rows at positions that all columns share are summed in lanes
TEST(ColumnsTest, RowsAtPositionsAreSummedInLanes) {
  const Tensor table("table", i32, {50, 64}), rows("rows", i32, {9, 5}), y("y", i32, {9, 64}),
      own("own", i32, {64, 5});
  const Index i, j, k;
  const auto made = [](const Program& program) {
    expect_unchanged(program);
    return comments(schedule(optimize(lower(program)), tiny_target(Isa::avx2)).loop);
  };
  Program bags("bags"), apart("apart");
  bags << (y(i, k) = sum(table(at(rows(i, j)), k)));
  EXPECT_NE(made(bags).find("columns at once"), std::string::npos);
  apart << (y(i, k) = sum(table(at(own(k, j)), k)));
  EXPECT_EQ(made(apart).find("columns at once"), std::string::npos) << "a row for each column";
}

/// What the schedule of a program fetches ahead: "tensor row ", at the place of each fetch.
std::string fetched(const Program& program, std::int64_t l2_bytes) {
  expect_unchanged(program);
  Target target = tiny_target(Isa::avx2);
  target.l2_bytes = l2_bytes;
  const Lowered lowered = schedule(optimize(lower(program)), target);
  std::string text;
  walk(lowered.loop.body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::prefetch) return;
    text +=
        fmt::format("{} {} ", lowered.tensors[stmt.buffer].label(), stmt.subscripts[0].constant);
  });
  return text;
}

std::string fetched(std::int64_t rows, std::int64_t columns, std::int64_t l2_bytes) {
  const Tensor x("x", f32, {rows, columns}), sums("sums", f32, {columns});
  const Index i, j;
  Program program("sums");
  program << (sums(j) = sum(x(i, j)));
  return fetched(program, l2_bytes);
}

// J9: of a row of more than half the first-level cache a part is read at a time; what comes next
// there is fetched, unless all is in the second-level cache already
TEST(ColumnsTest, PartsOfRowsAreFetchedAhead) {
  EXPECT_EQ(fetched(40, 256, 40'000), "x 4 x 5 x 6 x 7 ");
  EXPECT_EQ(fetched(41, 256, 40'000), "x 4 x 5 x 6 x 7 ");  // after the last row there is none
  EXPECT_EQ(fetched(40, 128, 4'000), "");
  EXPECT_EQ(fetched(40, 256, 41'000), "");
}

// J9: of several terms those are fetched that go along the columns and change from row to row, as
// far as they are not in the second-level cache
TEST(ColumnsTest, OnlyRowsAreFetchedAhead) {
  const Tensor x("x", f32, {40, 256}), weights("weights", f32, {40, 300}),
      other("other", f32, {40, 256}), shifts("shifts", f32, {50, 256}), sums("sums", f32, {256});
  const Index i, j;
  const auto program = [&](const Expr& term) {
    Program made("sums");
    made << (sums(j) = sum(term));
    return made;
  };
  const std::string rows = "x 4 x 5 x 6 x 7 ";
  EXPECT_EQ(fetched(program(x(i, j) + weights(i, 7)), 40'000), rows) << "the same for all columns";
  EXPECT_EQ(fetched(program(x(i, j) + shifts(3, j)), 40'000), rows) << "the same for all rows";
  EXPECT_EQ(fetched(program(x(i, j) + x(i, j) * 2), 40'000), rows) << "once";
  EXPECT_EQ(fetched(program(x(i, j) + other(i, j)), 40'000),
            rows + "other 4 other 5 other 6 other 7 ");
}

// J9: comments are nothing that a sum of columns would stumble over
TEST(ColumnsTest, CommentsMayFollowSums) {
  Lowered before;
  before.loop = parse_loop(R"(heddle-loop 1
buffer t0 input f32[37,150]
buffer t1 output f32[150]
kernel {
  for i0 in 0..150 {
    let x0: f32 = 0:f32
    for i1 in 0..37 {
      x0 = add.f32(x0, t0[i1, i0])
    }
    # here they are
    t1[i0] = x0
  }
}
)");
  before.tensors.assign(2, Tensor("t", f32, {37, 150}));
  EXPECT_NE(comments(schedule(before, tiny_target(Isa::avx2)).loop).find("columns at once"),
            std::string::npos);
}

}  // namespace
}  // namespace heddle::jit::testing
