// Rows that are fetched while others are computed. That no value changes is for the random tests.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <utility>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/schedule.hpp"
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

/// How often each element is fetched into the second-level cache.
class Fetched {
 public:
  std::map<std::pair<std::int64_t, std::int64_t>, int> times;

  void run(const Block& block) {
    for (const StmtPtr& stmt : block) {
      if (stmt->kind == StmtKind::prefetch && stmt->next == Prefetch::load_later)
        ++times[{at(stmt->subscripts[0]), at(stmt->subscripts[1])}];
      if (stmt->kind != StmtKind::loop || stmt->mark == LoopMark::lanes) continue;
      for (std::int64_t k = stmt->from; k < stmt->to; ++k) {
        vars_[stmt->var] = k;
        run(stmt->body);
      }
    }
  }

 private:
  std::int64_t at(const Affine& index) const {
    std::int64_t result = index.constant;
    for (const AffineTerm& term : index.terms) result += term.coefficient * vars_.at(term.id);
    return result;
  }

  std::map<VarId, std::int64_t> vars_;
};

// J9: tiles of large transposes fetch all lines of the next one
TEST(PrefetchTest, TransposesFetchTheNextTile) {
  for (const Isa isa : {Isa::avx2, Isa::avx512}) {
    for (const DType type : {f32, f64}) {
      const std::int64_t rows = 272, columns = 1100;
      const Tensor x("x", type, {rows, columns}), y("y", type, {columns, rows});
      const Index i, j;
      Program program("transposed");
      program << (y(i, j) = x(j, i));
      const Loop loop = schedule(optimize(lower(program)), tiny_target(isa)).loop;
      ASSERT_TRUE(verify(loop).ok());
      Fetched fetched;
      fetched.run(loop.body);
      const auto line = static_cast<std::int64_t>(64 / size_of(type));
      std::int64_t expected = 0;
      const std::int64_t strip = 8 * line, tile = 4 * line, page = 64 * line;
      for (std::int64_t row = 0; row < rows / strip * strip; ++row) {
        for (std::int64_t column = 0; column < columns; column += line) {
          const std::int64_t in_page = column % page;
          const std::int64_t whole = std::min(page, columns - column + in_page) / tile * tile;
          const bool is_first = row < strip && in_page < tile;
          const bool is_fetched = in_page < whole && !is_first;
          expected += is_fetched;
          ASSERT_EQ((fetched.times[{row, column}]), is_fetched)
              << name(isa) << " " << name(type) << " " << row << ", " << column;
        }
      }
      std::int64_t found = 0;
      for (const auto& [at, times] : fetched.times)
        found += at.first < rows / strip * strip ? times : 0;
      EXPECT_EQ(found, expected) << "nothing else";
    }
  }
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
