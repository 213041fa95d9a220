// Rows sorted by networks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <random>
#include <vector>

#include "jit/describe/expr.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

Program sorted_rows(std::int64_t rows, std::int64_t count, DType type = u32) {
  const Tensor x("x", type, {rows, count}), y("y", type, {rows, count});
  const Index row(rows), place(count);
  Program program("rows");
  program << sorted(y(row, place) = x(row, place) + 1);
  return program;
}

// F3: a network that sorts every row of zeros and ones sorts all rows (Knuth, The Art of Computer
// Programming, volume 3, 5.3.4, theorem Z)
TEST(SortedRowsTest, NetworksSortZerosAndOnes) {
  for (std::int64_t count = 1; count <= 11; ++count) {
    const std::int64_t rows = std::int64_t{1} << count;
    const Lowered made = optimize(lower(sorted_rows(rows, count)));
    std::vector<HostArray> arrays;  // y, x
    for (const BufferDecl& each : made.loop.buffers) arrays.emplace_back(each.type);
    std::int64_t ones = 0;
    for (std::int64_t k = 0; k < rows * count; ++k)
      arrays[1].set(k, static_cast<double>(k / count >> k % count & 1));
    interpret(made.loop, arrays);
    for (std::int64_t k = 0; k < rows * count; ++k) {
      const std::int64_t row = k / count;
      if (k % count == 0) ones = std::popcount(static_cast<std::uint64_t>(row));
      ASSERT_EQ(arrays[0].at(k), k % count < count - ones ? 1 : 2) << row << " of " << count;
    }
  }
}

// F3: longer networks, whose last groups lack places; elements are drawn, as are zeros and ones
TEST(SortedRowsTest, NetworksSortLongRows) {
  std::minstd_rand random(7);
  for (const std::int64_t count : {12, 15, 16, 17, 31, 33, 40, 63, 64, 65, 100, 127, 129, 250}) {
    constexpr std::int64_t rows = 40;
    const Lowered made = optimize(lower(sorted_rows(rows, count)));
    std::vector<HostArray> arrays;  // y, x
    for (const BufferDecl& each : made.loop.buffers) arrays.emplace_back(each.type);
    std::vector<std::vector<double>> expected(rows);
    for (std::int64_t k = 0; k < rows * count; ++k) {
      const auto drawn = random();
      const bool is_bit = k / count % 2 == 0;
      arrays[1].set(k, static_cast<double>(is_bit ? drawn >> 8 & 1 : drawn));
      expected[static_cast<std::size_t>(k / count)].push_back(arrays[1].at(k) + 1);
    }
    interpret(made.loop, arrays);
    for (std::int64_t row = 0; row < rows; ++row) {
      std::vector<double>& wanted = expected[static_cast<std::size_t>(row)];
      std::ranges::sort(wanted);
      for (std::int64_t k = 0; k < count; ++k)
        ASSERT_EQ(arrays[0].at(row * count + k), wanted[static_cast<std::size_t>(k)])
            << "row " << row << " of " << count << ", place " << k;
    }
  }
}

/// The rows that the schedule takes side by side; 0: it takes one after the other.
std::int64_t rows_side_by_side(const Program& program, Isa isa) {
  for (const Tensor& each : schedule(optimize(lower(program)), tiny_target(isa)).tensors) {
    if (each.label() == "rows side by side") return each.dims()[1];
  }
  return 0;
}

// J9: rows are lanes, as many as a vector has; the last block may repeat rows
TEST(SortedRowsTest, RowsAreSideBySide) {
  for (const std::int64_t rows : {8, 16, 19, 37}) expect_unchanged(sorted_rows(rows, 13));
  expect_unchanged(sorted_rows(9, 600, u64));
  EXPECT_EQ(rows_side_by_side(sorted_rows(8, 13), Isa::avx2), 8);
  EXPECT_EQ(rows_side_by_side(sorted_rows(7, 13), Isa::avx2), 0);
  EXPECT_EQ(rows_side_by_side(sorted_rows(8, 1025), Isa::avx2), 8);
  EXPECT_EQ(rows_side_by_side(sorted_rows(8, 1025), Isa::avx512), 8);
  EXPECT_EQ(rows_side_by_side(sorted_rows(16, 1025), Isa::avx512), 16);
  EXPECT_EQ(rows_side_by_side(sorted_rows(8, 600, u64), Isa::avx512), 8);
  EXPECT_EQ(rows_side_by_side(sorted_rows(8, 600, u64), Isa::avx2), 4);
}

// J9: what reads the sorted rows alone, element by element, reads them where they are turned back
TEST(SortedRowsTest, ReadersReadTurnedRows) {
  const Tensor x("x", u32, {19, 13}), y("y", u32, {19, 13}), z("z", u32, {19, 13}),
      all("all", u32, {19}), first("first", u32, {1});
  const Index i, k, one(1);
  Program alone("alone"), twice("twice"), shifted("shifted"), single("single");
  alone << sorted(y(i, k) = x(i, k) + 1) << (z(i, k) = y(i, k) * 2 + x(i, k));
  twice << sorted(y(i, k) = x(i, k) + 1) << (z(i, k) = y(i, k) * 2) << (all(i) = sum(y(i, k)));
  const Index p(12);
  shifted << sorted(y(i, k) = x(i, k) + 1) << (z(i, p) = y(i, p + 1) * 2);
  single << sorted(y(i, k) = x(i, k) + 1) << (z(i, k) = y(i, k) * 2)
         << (first(one) = y(one + 1, one));
  const auto has_rows = [](const Program& program) {
    expect_unchanged(program);
    const Lowered made = schedule(optimize(lower(program)), tiny_target(Isa::avx2));
    return std::ranges::any_of(made.loop.buffers, [](const BufferDecl& each) {
      return each.role == Role::scratch && each.type.dims == Dims{19, 13};
    });
  };
  EXPECT_FALSE(has_rows(alone));
  EXPECT_TRUE(has_rows(twice));
  EXPECT_TRUE(has_rows(shifted));
  EXPECT_TRUE(has_rows(single)) << "an element is read outside of loops";
}

}  // namespace
}  // namespace heddle::jit::testing
