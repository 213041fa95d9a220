// Elementwise code over arrays with short last axes.
#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t point_count = 30;

/// The dims of the first buffer of that label, as the schedule has them.
Dims dims_of(const Program& program, const Tensor& tensor) {
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  for (std::size_t k = 0; k < made.tensors.size(); ++k)
    if (made.tensors[k].label() == tensor.label()) return made.loop.buffers[k].type.dims;
  return {};
}

struct Points {
  const Tensor x{"x", f32, {point_count, 3}}, y{"y", f32, {point_count, 3}},
      z{"z", f32, {point_count, 3}};
  const Index i, k;
};

// J9: functions of points take vectors of elements, whatever axes these are of
TEST(JoinedAxesTest, ShortRowsAreOneAxis) {
  const Points p;
  Program program("points");
  program << (p.y(p.i, p.k) = exp(p.x(p.i, p.k)) + p.x(p.i, p.k));
  expect_unchanged(program);
  EXPECT_EQ(dims_of(program, p.y), Dims{3 * point_count});
  EXPECT_EQ(dims_of(program, p.x), Dims{3 * point_count});
}

// J9: matrices of few rows are the rows of one product with a matrix of all; not where that differs
TEST(JoinedAxesTest, RowsOfSmallMatricesAreOneAxis) {
  constexpr std::int64_t count = 20, rows = 5, columns = 6;
  const Tensor a("a", f32, {count, rows, 7}), one("one", f32, {7, columns}),
      each("each", f32, {count, 7, columns}), y("y", f32, {count, rows, columns});
  const Index n, i, j, k;
  Program by_one("by_one"), by_each("by_each");
  by_one << (y(n, i, j) += a(n, i, k) * one(k, j));
  by_each << (y(n, i, j) += a(n, i, k) * each(n, k, j));
  expect_unchanged(by_one);
  expect_unchanged(by_each);
  EXPECT_EQ(dims_of(by_one, y), (Dims{count * rows, columns}));
  EXPECT_EQ(dims_of(by_one, a), (Dims{count * rows, 7}));
  EXPECT_EQ(dims_of(by_each, y), (Dims{count, rows, columns}));
}

// S5: the interface keeps its types, and results may take the memory of arguments
TEST(JoinedAxesTest, SignaturesStay) {
  const Points p;
  Program program("points");
  program << (p.y(p.i, p.k) = exp(p.x(p.i, p.k)));
  const Lowered plain = optimize(lower(program));
  const Signature made = make_signature(schedule(plain, with_isa(native_target(), Isa::avx512)));
  const Signature expected = make_signature(plain);
  ASSERT_EQ(made.entries.size(), expected.entries.size());
  for (std::size_t k = 0; k < made.entries.size(); ++k) {
    EXPECT_EQ(made.entries[k].type, expected.entries[k].type);
    EXPECT_EQ(made.entries[k].takes, expected.entries[k].takes);
  }
}

// J9: scratch that a scatter of rows reads is computed in vectors, too
TEST(JoinedAxesTest, ScattersReadThem) {
  const Points p;
  const Tensor to("to", i64, {point_count}), sums("sums", f32, {7, 3}),
      e("e", f32, {point_count, 3});
  const Index g, j;
  Program program("sums");
  program << (e(p.i, p.k) = exp(p.x(p.i, p.k))) << (sums(g, j) = 0)
          << (sums(at(to(p.i)), p.k) += e(p.i, p.k));
  expect_unchanged(program);
  EXPECT_EQ(dims_of(program, e), Dims{3 * point_count});
  EXPECT_EQ(dims_of(program, sums), (Dims{7, 3}));
}

// D9: arrays that other nests go over, cheap code, and rows of vectors keep their axes
TEST(JoinedAxesTest, OthersStay) {
  const Points p;
  const Dims as_it_is{point_count, 3};
  Program read("read"), cheap("cheap"), beside("beside");
  const Tensor column("column", f32, {point_count});
  read << (p.y(p.i, p.k) = exp(p.x(p.i, p.k))) << (column(p.i) = sum(p.y(p.i, p.k)))
       << (p.z(p.i, p.k) = p.y(p.i, p.k) / column(p.i));
  expect_unchanged(read);
  EXPECT_EQ(dims_of(read, p.z), as_it_is);
  cheap << (p.y(p.i, p.k) = p.x(p.i, p.k) * 2);
  EXPECT_EQ(dims_of(cheap, p.y), as_it_is);
  const Tensor bias("bias", f32, {3});
  beside << (p.y(p.i, p.k) = exp(p.x(p.i, p.k)) * bias(p.k));
  expect_unchanged(beside);
  EXPECT_EQ(dims_of(beside, p.y), as_it_is);
  const Tensor wide("wide", f32, {point_count, 16}), out("out", f32, {point_count, 16});
  const Index c;
  Program vectors("vectors");
  vectors << (out(p.i, c) = exp(wide(p.i, c)));
  EXPECT_EQ(dims_of(vectors, out), (Dims{point_count, 16}));
}

// J9: elements beside each other, and one element for all, are read as the axes have them
TEST(JoinedAxesTest, AccessesOfABufferAreAlike) {
  const Points p;
  const Tensor more("more", f32, {point_count + 1, 3});
  const Index i(point_count);
  Program first("first"), next("next"), both("both");
  first << (p.y(p.i, p.k) = exp(p.x(p.i, p.k)) + p.x(0, 0));
  next << (p.y(i, p.k) = exp(more(i, p.k) - more(i + 1, p.k)));
  both << (p.y(i, p.k) = more(0, 1) + exp(more(i + 1, p.k)));
  for (const Program* each : {&first, &next, &both}) expect_unchanged(*each);
  EXPECT_EQ(dims_of(first, p.y), (Dims{point_count, 3}));
  EXPECT_EQ(dims_of(next, p.y), Dims{3 * point_count});
  EXPECT_EQ(dims_of(next, more), Dims{3 * point_count + 3});
  EXPECT_EQ(dims_of(both, p.y), (Dims{point_count, 3}));
}

// J9: reductions over other axes take the last two for columns, where the last is short; where it
// is reduced, too, all columns are reduced side by side
TEST(JoinedAxesTest, ColumnsOfReductionsAreOneAxis) {
  const Tensor x("x", f32, {3, 7, 20, 5}), y("y", f32, {3, 20, 5}), z("z", f32, {20}),
      w("w", f32, {5});
  const Index a, b, c, d;
  Program kept("kept"), reduced("reduced"), beside("beside");
  kept << (y(a, c, d) += x(a, b, c, d));
  expect_unchanged(kept);
  EXPECT_EQ(dims_of(kept, y), (Dims{3, 100}));
  reduced << (z(c) += x(a, b, c, d));
  expect_unchanged(reduced);
  const Lowered made = schedule(optimize(lower(reduced)), with_isa(native_target(), Isa::avx512));
  EXPECT_NE(comments(made.loop).find("columns at once"), std::string::npos) << print(made.loop);
  beside << (y(a, c, d) += x(a, b, c, d) + w(d));
  expect_unchanged(beside);
  EXPECT_EQ(dims_of(beside, y), (Dims{3, 20, 5}));
}

// J9: one axis of an array is read along, another is not
TEST(JoinedAxesTest, OtherReadsBecomeFlat) {
  const Points p;
  const Tensor rows("rows", f32, {point_count});
  Program program("both");
  program << (p.y(p.i, p.k) = exp(p.x(p.i, p.k))) << (rows(p.i) = sum(p.x(p.i, p.k)));
  expect_unchanged(program);
  EXPECT_EQ(dims_of(program, p.y), Dims{3 * point_count});
  EXPECT_EQ(dims_of(program, p.x), (Dims{point_count, 3}));
}

}  // namespace
}  // namespace heddle::jit::testing
