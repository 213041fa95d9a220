// Rows sorted by networks.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
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

/// The rows that the schedule takes side by side; 0: it takes one after the other.
std::int64_t rows_side_by_side(const Program& program, Isa isa) {
  for (const Tensor& each : schedule(optimize(lower(program)), tiny_target(isa)).tensors) {
    if (each.label() == "rows side by side") return each.dims()[1];
  }
  return 0;
}

// J9: rows are lanes, as many as a cache has room for; the last block may repeat rows
TEST(SortedRowsTest, RowsAreSideBySide) {
  for (const std::int64_t rows : {8, 16, 19}) expect_unchanged(sorted_rows(rows, 13));
  expect_unchanged(sorted_rows(9, 600, u64));
  EXPECT_EQ(rows_side_by_side(sorted_rows(8, 13), Isa::avx2), 8);
  EXPECT_EQ(rows_side_by_side(sorted_rows(7, 13), Isa::avx2), 0);
  EXPECT_EQ(rows_side_by_side(sorted_rows(8, 1025), Isa::avx2), 4);
  EXPECT_EQ(rows_side_by_side(sorted_rows(8, 1025), Isa::avx512), 8);
  EXPECT_EQ(rows_side_by_side(sorted_rows(8, 600, u64), Isa::avx512), 4);
}

}  // namespace
}  // namespace heddle::jit::testing
