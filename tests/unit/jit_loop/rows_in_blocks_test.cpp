// Loops over the same rows, block by block.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t many_rows = 8200, few_rows = 600;

/// The largest scratch of the schedule, in elements.
std::int64_t scratch_of(const Program& program) {
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  std::int64_t most = 0;
  for (const BufferDecl& decl : made.loop.buffers) {
    if (decl.role == Role::scratch) most = std::max(most, *decl.type.num_elements());
  }
  return most;
}

/// The lengths of differences of points, of which two results are made.
Program lengths(std::int64_t count, bool reversed = false) {
  const Tensor k("k", i64, {count}), j("j", i64, {count}), x("x", f32, {40, 3}),
      d("d", f32, {count, 3}), length("length", f32, {count}), y("y", f32, {count, 3});
  const Index row, across;
  Program program("lengths");
  program << (d(row, across) = x(at(k(row)), across) - x(at(j(row)), across))
          << (length(row) += d(row, across) * d(row, across));
  if (reversed) {
    program << (y(row, across) = d(count - 1 - Subscript(row), across) / sqrt(length(row)));
  } else {
    program << (y(row, across) = d(row, across) / sqrt(length(row)));
  }
  return program;
}

// J9: what one loop makes for the next stays in the cache, with a rest of rows and without
TEST(RowsInBlocksTest, ScratchIsABlock) {
  EXPECT_LE(scratch_of(lengths(many_rows)), 3 * 512);
  EXPECT_LE(scratch_of(lengths(8209)), 3 * 512) << "a prime number of rows";
}

// J9: scratch that fits the cache, and rows that other rows read, stay
TEST(RowsInBlocksTest, OthersStayWhole) {
  EXPECT_EQ(scratch_of(lengths(few_rows)), 3 * few_rows);
  EXPECT_EQ(scratch_of(lengths(many_rows, true)), 3 * many_rows);
}

// J9: cheap functions of rows that are read at positions are not fused with the reads
TEST(RowsInBlocksTest, ReadsStayApartFromRows) {
  const Tensor k("k", i64, {many_rows}), x("x", f32, {40, 3}), s("s", f32, {many_rows}),
      y("y", f32, {many_rows, 3});
  Tensor d("d", f32, {many_rows, 3});
  d.set_mode(MemoryMode::local);
  const Index row, across;
  Program program("scaled");
  program << (d(row, across) = x(at(k(row)), across) - x(0, across))
          << (s(row) += d(row, across) * d(row, across))
          << (y(row, across) = s(row) * d(row, across));
  const std::int64_t elements = scratch_of(program);
  EXPECT_GE(elements, 3 * 128);
  EXPECT_LE(elements, 3 * 512);
}

// J9: iterations that share elements, as those of a sum at positions, are no blocks: loops before
// them would lose their parts
TEST(RowsInBlocksTest, SumsAtPositionsStayApart) {
  const Tensor k("k", i64, {many_rows}), x("x", f32, {40, 3}), sums("sums", f32, {40, 3}),
      f("f", f32, {many_rows, 3});
  const Index row, across;
  Program program("sums");
  program << (f(row, across) = exp(x(at(k(row)), across)))
          << (sums(at(k(row)), across) += f(row, across));
  EXPECT_EQ(scratch_of(program), 3 * many_rows);
}

}  // namespace
}  // namespace heddle::jit::testing
