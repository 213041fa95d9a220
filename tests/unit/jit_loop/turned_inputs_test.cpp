// Inputs with short rows that are read turned.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

/// Whether the schedule of the program has a turned copy.
bool has_copy(const Program& program) {
  const Lowered made = schedule(optimize(lower(program)), tiny_target(Isa::avx2));
  return std::ranges::any_of(made.tensors,
                             [](const Tensor& each) { return each.label() == "turned"; });
}
/// The same; its results are those without a schedule.
bool is_turned(const Program& program) {
  expect_unchanged(program);
  return has_copy(program);
}

constexpr std::int64_t points = 50;

/// Squared distances of points.
Program distances(const Tensor& p) {
  const Tensor r("r", f32, {points, points});
  const Index i, j, k;
  Program program("distances");
  program << (r(i, j) = sum((p(j, k) - p(i, k)) * (p(j, k) - p(i, k))));
  return program;
}

// J9: components of points that each iteration reads lie side by side in a copy
TEST(TurnedInputsTest, PointsReadManyTimesAre) {
  const Tensor p("p", f32, {points, 3}), f("f", f32, {points, 3}), r("r", f32, {points, points});
  const Index i, j, k;
  EXPECT_TRUE(is_turned(distances(p)));
  Program forces("forces");
  forces << (f(i, k) = sum(max(p(j, k) - p(i, k), r(i, j))));
  EXPECT_TRUE(is_turned(forces));
  EXPECT_FALSE(is_turned(distances(Tensor("wide", f32, {points, 9}))));
}

// J9: a copy costs more than it saves where elements are read a few times
TEST(TurnedInputsTest, PointsReadOnceAreNot) {
  const Tensor p("p", f32, {points, 3}), y("y", f32, {points});
  const Index i;
  Program once("once");
  once << (y(i) = p(i, 0) * p(i, 1) + p(i, 2));
  EXPECT_FALSE(is_turned(once));
}

// J9: rows that are stored as they are read lie side by side already
TEST(TurnedInputsTest, ElementsStoredAsTheyAreReadAreNot) {
  const Tensor x("x", f32, {points, points, 3}), y("y", f32, {points - 3, points - 3, 3});
  const Index h, w, c, u(4), v(4);
  Program blur("blur");
  blur << (y(h, w, c) = sum(x(h + u, w + v, c)));
  EXPECT_FALSE(is_turned(blur));
}

// D9: a copy reads no more than the loops do: rows of a static index, some rows, or some columns
TEST(TurnedInputsTest, PartsOfInputsAreNot) {
  const Tensor x("x", f32, {4, points, 3}), long_one("long_one", f32, {points + 1, 3}),
      y("y", f32, {points, points}), none("none", f32, {0, points, 3}),
      all_of_none("all_of_none", f32, {0, points, points});
  const Index i(points), j(points), k, m;
  const StaticIndex s("s");
  Program chosen("chosen"), some("some"), two("two"), three("three"), empty("empty");
  const auto square = [](const Expr& a, const Expr& b) { return (a - b) * (a - b); };
  chosen << (y(i, j) = sum(square(x(s, j, k), x(s, i, k))));
  EXPECT_FALSE(has_copy(chosen));
  some << (y(i, j) = sum(square(long_one(j, k), long_one(i, k))));
  EXPECT_FALSE(is_turned(some));
  const Tensor p("p", f32, {points, 3});
  const auto column = [&](std::int64_t n) { return square(p(j, n), p(i, n)) * 3; };
  two << (y(i, j) = column(0) + column(1) * column(1) * column(1) * column(0) * column(0));
  EXPECT_FALSE(is_turned(two));
  three << (y(i, j) = column(0) + column(1) + column(2) * column(2) * column(1) * column(0));
  EXPECT_TRUE(is_turned(three));
  empty << (all_of_none(m, i, j) = sum(square(none(m, j, k), none(m, i, k))));
  EXPECT_FALSE(is_turned(empty));
}

// J9: what the kernel writes has no copy, and products have copies of their own
TEST(TurnedInputsTest, OtherReadsAreNot) {
  const Tensor p("p", f32, {points, 3}), m("m", f32, {3, points}), y("y", f32, {points, points});
  const Index i, j, k;
  Program moved = distances(p);
  moved << (p(i, k) += 1.0);
  EXPECT_FALSE(is_turned(moved));
  Program product("product");
  product << (y(i, j) = sum(p(i, k) * m(k, j)));
  EXPECT_FALSE(is_turned(product));
}

}  // namespace
}  // namespace heddle::jit::testing
