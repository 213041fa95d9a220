// Rows of two to four elements, a row in each lane.
#include <gtest/gtest.h>

#include <cstdint>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t num_points = 37;

/// The number of loops over lanes that store whole rows of `columns` elements.
std::int64_t rows_in_lanes(const Program& program, std::int64_t columns, Isa isa = Isa::avx512) {
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), isa));
  std::int64_t found = 0;
  walk(made.loop.body, [&](const Stmt& stmt) {
    std::int64_t stores = 0;
    for (const StmtPtr& inner : stmt.body) stores += inner->kind == StmtKind::store;
    found += stmt.kind == StmtKind::loop && stmt.mark == LoopMark::lanes && stores == columns;
  });
  return found;
}

const Index point_index, point_axis;

Program unit_vectors(std::int64_t columns, DType type = f32) {
  const Tensor x("x", type, {num_points, columns}), y("y", type, {num_points, columns}),
      length("length", type, {num_points});
  Program program("unit_vectors");
  program << (length(point_index) += x(point_index, point_axis) * x(point_index, point_axis))
          << (y(point_index, point_axis) = x(point_index, point_axis) / sqrt(length(point_index)));
  return program;
}

Program below_maximum(std::int64_t columns) {
  const Tensor x("x", f32, {num_points, columns}), y("y", f32, {num_points, columns}),
      most("most", f32, {num_points});
  Program program("below_maximum");
  program << (most(point_index) = maximum(x(point_index, point_axis)))
          << (y(point_index, point_axis) = x(point_index, point_axis) - most(point_index));
  return program;
}

// J9: rows of two to four elements are loaded and stored whole
TEST(UnrolledRowsTest, RowsAreWhole) {
  for (const std::int64_t columns : {2, 3}) {
    // With one store more: the sum of the squares keeps its value.
    EXPECT_EQ(rows_in_lanes(unit_vectors(columns), columns + 1), 1) << columns;
    EXPECT_EQ(rows_in_lanes(unit_vectors(columns, f64), columns + 1), 1) << columns;
  }
  EXPECT_EQ(rows_in_lanes(below_maximum(4), 4), 1);
  EXPECT_EQ(rows_in_lanes(unit_vectors(4), 5), 0) << "compilers are as fast";
  EXPECT_EQ(rows_in_lanes(below_maximum(5), 5), 0);
  EXPECT_EQ(rows_in_lanes(unit_vectors(3), 4, Isa::avx2), 0) << "vectors are not permuted";
}

// J9: products of short rows and short matrices are rows, whatever reads them
TEST(UnrolledRowsTest, ShortProductsAreRows) {
  constexpr std::int64_t count = 100;
  const auto multiplied = [](std::int64_t terms, std::int64_t columns, bool divides) {
    const Tensor x("x", f32, {count, terms}), m("m", f32, {terms, columns}),
        y("y", f32, {count, divides ? 1 : columns}), c("c", f32, {count, columns});
    const Index row, k, column;
    Program program("product");
    if (divides) {
      program << (c(row, column) += x(row, k) * m(k, column))
              << (y(row, 0) = c(row, 0) / c(row, 1));
    } else {
      program << (y(row, column) += x(row, k) * m(k, column));
    }
    return program;
  };
  EXPECT_EQ(rows_in_lanes(multiplied(3, 3, false), 3), 1);
  EXPECT_EQ(rows_in_lanes(multiplied(4, 4, false), 4), 1);
  EXPECT_EQ(rows_in_lanes(multiplied(3, 4, true), 4 + 1), 1);
  EXPECT_EQ(rows_in_lanes(multiplied(3, 5, false), 5), 0);
  EXPECT_EQ(rows_in_lanes(multiplied(5, 3, false), 3), 0);
}

// J9: a product of short rows stays in lanes beside long rows that read it
TEST(UnrolledRowsTest, ShortProductsStayApartFromLongRows) {
  constexpr std::int64_t count = 100;
  const Tensor x("x", f32, {count, 3}), m("m", f32, {3, 3}), c("c", f32, {count, 3}),
      w("w", f32, {count, 8}), s("s", f32, {count}), y("y", f32, {count, 8});
  const Index row, k, column, across;
  for (const bool through_another : {false, true}) {
    Program program("scaled");
    program << (c(row, column) += x(row, k) * m(k, column));
    if (through_another) {
      program << (s(row) = c(row, 0) / c(row, 1)) << (y(row, across) = s(row) * w(row, across));
    } else {
      program << (y(row, across) = c(row, 0) * w(row, across));
    }
    EXPECT_EQ(rows_in_lanes(program, 3), 1) << through_another;
  }
}

// J9: matrices of two rows of two are rows of four
TEST(UnrolledRowsTest, SmallMatricesAreRows) {
  constexpr std::int64_t count = 100;
  const Tensor m("m", f32, {count, 2, 2}), f("f", f32, {2, 2}), y("y", f32, {count, 2, 2}),
      large("large", f32, {count, 3, 3}), of_large("of_large", f32, {count, 3, 3});
  const Index n, i, j, k;
  Program by_one("by_one"), nine("nine");
  by_one << (y(n, i, j) += f(i, k) * m(n, k, j));
  nine << (of_large(n, i, j) += large(n, i, k) * large(n, k, j));
  EXPECT_EQ(rows_in_lanes(by_one, 4), 1);
  EXPECT_EQ(rows_in_lanes(nine, 4), 0);
}

// J9: what an iteration changes is read before, and rows that meet stay in order
TEST(UnrolledRowsTest, ChangedRowsAreReadFirst) {
  const Tensor x("x", f32, {num_points, 3}), y("y", f32, {num_points + 1, 3}),
      s("s", f32, {num_points});
  Program turned("turned"), moved("moved");
  const Index k(3), row(num_points);
  turned << (s(point_index) += x(point_index, point_axis))
         << (x(point_index, point_axis) = s(point_index) - x(point_index, point_axis));
  EXPECT_EQ(rows_in_lanes(turned, 4), 1);
  moved << (s(point_index) += x(point_index, point_axis))
        << (y(row + 1, k) = s(row) + y(row, k) * x(row, k));
  EXPECT_EQ(rows_in_lanes(moved, 3) + rows_in_lanes(moved, 4), 0);
}

// J9: elements alone are one axis, for any vector
TEST(UnrolledRowsTest, ElementsAloneStay) {
  const Tensor x("x", f32, {num_points, 3}), y("y", f32, {num_points, 3});
  Program program("plain");
  program << (y(point_index, point_axis) = x(point_index, point_axis) * 2);
  EXPECT_EQ(rows_in_lanes(program, 3), 0);
}

// J9: a column of points is loaded from whole rows; two columns of four are no row to store
TEST(UnrolledRowsTest, ColumnsAreLoadedFromRows) {
  const auto is_vector = [](const Program& program) {
    expect_unchanged(program);
    const Target target = with_isa(native_target(), Isa::avx512);
    const Lowered made = schedule(optimize(lower(program)), target);
    return !made.lanes->vectors.empty();
  };
  const Tensor x("x", f32, {64, 3}), y("y", f32, {64}), z("z", f32, {64, 4}), w("w", f32, {64, 5});
  Program read("read"), far("far"), stored("stored");
  read << (y(point_index) = x(point_index, 0) * x(point_index, 2) + x(point_index, 1));
  EXPECT_TRUE(is_vector(read));
  far << (y(point_index) = w(point_index, 0) * w(point_index, 2));
  EXPECT_FALSE(is_vector(far));
  stored << (z(point_index, 1) = y(point_index) * 3);
  EXPECT_FALSE(is_vector(stored));
}

}  // namespace
}  // namespace heddle::jit::testing
