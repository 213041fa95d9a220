// Rows that are fetched while others are computed. That no value changes is for the random tests.
#include <gtest/gtest.h>

#include <array>

#include "jit/loop_text.hpp"
#include "jit/rewrite.hpp"
#include "jit/schedule.hpp"
#include "jit/verify.hpp"
#include "support/random_contraction.hpp"

namespace heddle::jit::testing {
namespace {

Lowered softmax(std::int64_t rows, std::int64_t columns, bool whole_rows = true) {
  const Tensor x("x", f32, {rows, columns}), top("top", f32, {rows}), e("e", f32, {rows, columns}),
      total("total", f32, {rows}), y("y", f32, {rows, columns});
  const Index i, j;
  Program program("softmax");
  program << (top(i) = maximum(x(i, j))) << (e(i, j) = exp(x(i, whole_rows ? j : 0 * j) - top(i)))
          << (total(i) = sum(e(i, j))) << (y(i, j) = e(i, j) / total(i));
  return optimize(lower(program));
}

Loop scheduled(const Lowered& plain, std::span<const ScheduleStep> without = {}) {
  Loop loop = schedule(plain, tiny_target(Isa::avx2), without).loop;
  EXPECT_TRUE(verify(loop).ok());
  return loop;
}

std::vector<const Stmt*> fetches(const Loop& loop) {
  std::vector<const Stmt*> found;
  walk(loop.body, [&found](const Stmt& stmt) {
    if (stmt.kind == StmtKind::prefetch) found.push_back(&stmt);
  });
  return found;
}

// J9: of the loops over a row of a large input, the busiest that finds it in the cache fetches the
// next one
TEST(PrefetchTest, RowsReadAgainFetchTheNext) {
  const Loop loop = scheduled(softmax(60, 128));
  const std::string text = print(loop);
  const std::vector<const Stmt*> found = fetches(loop);
  ASSERT_EQ(found.size(), 1U) << text;
  EXPECT_EQ(found[0]->next, Prefetch::load);
  EXPECT_EQ(loop.buffers[found[0]->buffer].role, Role::input);
  EXPECT_EQ(found[0]->subscripts[0].constant, 1) << "the next row: " << text;
  const std::size_t at = text.find("prefetch t"), used = text.find("exp.f32");
  ASSERT_LT(at, used) << text;
  EXPECT_EQ(text.substr(at, used - at).find("for "), std::string::npos)
      << "in the loop of exp: " << text;
}

template <class... Inner>
Lowered centred(const Dims& dims, const Index& row, const Inner&... inner) {
  const Tensor x("x", f32, dims), total("total", f32, {dims[0]}), y("y", f32, dims);
  Program program("centred");
  program << (total(row) = sum(x(row, inner...)))
          << (y(row, inner...) = x(row, inner...) - total(row));
  return optimize(lower(program));
}

// J9: rows of any length and rank, but few lines at a time
TEST(PrefetchTest, RowsMayHaveSeveralAxes) {
  const Index i, j, k, l;
  for (const Lowered& plain :
       {centred({60, 100}, i, j), centred({30, 2, 64}, i, j, k), centred({30, 3, 33}, i, j, k),
        centred({60, 2, 4, 16}, i, j, k, l), centred({9, 2, 2, 40}, i, j, k, l)}) {
    const Loop loop = scheduled(plain);
    EXPECT_EQ(fetches(loop).size(), 1U) << print(loop);
    for (const Stmt* each : fetches(loop)) EXPECT_EQ(each->subscripts[0].constant, 1);
  }
}

TEST(PrefetchTest, OtherRowsAreLeftAlone) {
  EXPECT_TRUE(fetches(scheduled(softmax(60, 128), std::array{ScheduleStep::prefetch})).empty());
  EXPECT_TRUE(fetches(scheduled(softmax(4, 128))).empty()) << "in cache as they are";
  EXPECT_TRUE(fetches(scheduled(softmax(60, 128, false))).empty()) << "read once";
  EXPECT_TRUE(fetches(scheduled(softmax(4, 4096))).empty()) << "too long for the cache";
}

TEST(PrefetchTest, VectorsOfOneLaneReadNoRow) {
  // The last lane of 33 is alone, and x does not move along it.
  const Tensor x("x", f32, {4, 30, 128}), w("w", f32, {33}), total("total", f32, {4, 30}),
      y("y", f32, {4, 30, 128, 33});
  const Index b, i, k, j;
  Program program("weighted");
  program << (total(b, i) = sum(x(b, i, k))) << (y(b, i, k, j) = (x(b, i, k) - total(b, i)) * w(j));
  EXPECT_TRUE(fetches(scheduled(optimize(lower(program)))).empty());
}

}  // namespace
}  // namespace heddle::jit::testing
