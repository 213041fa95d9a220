// Sums along columns, and when they are read along rows.
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
