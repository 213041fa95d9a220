// Positions that are computed in vectors before the elements there are read.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "jit/loop/position.hpp"
#include "support/parsed.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

/// Arrays of positions in the schedule.
std::int64_t positions_ahead(const Program& program) {
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  return std::ranges::count(made.tensors, "positions", &Tensor::label);
}

const Index taken_row, taken_column;

Program taken(std::int64_t rows, std::int64_t columns, DType type = i64) {
  const Tensor k("k", type, {rows}), x("x", f32, {40, columns}), y("y", f32, {rows, columns});
  Program program("taken");
  program << (y(taken_row, taken_column) = x(at(k(taken_row)), taken_column) + 1);
  return program;
}

// J9, J13: positions of many rows are kept in range before, the ones outside included
TEST(PositionsAheadTest, BlocksOfRowsReadThem) {
  EXPECT_EQ(positions_ahead(taken(1000, 3)), 1);
  EXPECT_EQ(positions_ahead(taken(1000, 3, i32)), 1);
  EXPECT_EQ(positions_ahead(taken(160, 3)), 1) << "one block";
  EXPECT_EQ(positions_ahead(taken(509, 3)), 1) << "one block and a rest";
  EXPECT_EQ(positions_ahead(taken(100, 3)), 0) << "too few rows";
  EXPECT_EQ(positions_ahead(taken(1000, 5)), 0) << "the row takes longer than its position";
  EXPECT_EQ(positions_ahead(taken(1000, 3, u8)), 0) << "no vectors of positions";
}

// J9: positions that vectors compute stay in a loop of their own
TEST(PositionsAheadTest, ComputedPositionsAreComputedInVectors) {
  const Tensor x("x", f32, {5000}), k("k", i32, {5000}), f("f", f32, {40}), y("y", f32, {5000});
  Program program("lerp");
  program << (k(taken_row) = cast(floor(x(taken_row)), i32))
          << (y(taken_row) = f(at(k(taken_row))) * x(taken_row) + f(at(k(taken_row) + 1)));
  EXPECT_EQ(positions_ahead(program), 2);
}

// J13: a position that depends on another is computed inside that one
TEST(PositionsAheadTest, PositionsOfPositionsStay) {
  const Tensor group("group", i64, {1000}), offset("offset", i64, {40}), part("part", i64, {1000}),
      x("x", f32, {90}), y("y", f32, {1000});
  Program program("nested");
  program << (y(taken_row) = x(at(offset(at(group(taken_row))) + part(taken_row))));
  EXPECT_EQ(positions_ahead(program), 1);
}

// J13: positions that the loop itself changes are computed where they stand
TEST(PositionsAheadTest, ChangedPositionsStay) {
  const Tensor k("k", i64, {1000}), x("x", f32, {40}), y("y", f32, {1000});
  Program program("changed");
  program << (y(taken_row) = x(at(k(taken_row)))) << (k(taken_row) = k(taken_row) + 1);
  EXPECT_EQ(positions_ahead(program), 0);
}

Loop kernel_of(const std::string& stores) {
  return parsed(
      "buffer t0 input i64[8]\nbuffer t1 scratch i64[8]\nbuffer t2 input f32[8]\n"
      "buffer t3 output f32[8]\nkernel {\n" +
      stores +
      "  for i8 in 0..8 {\n    nearest i9 in 0..8 = t1[i8] {\n      t3[i8] = t2[i9]\n    }\n"
      "  }\n}\n");
}

bool stays(const std::string& stores) {
  const Loop loop = kernel_of(stores);
  const Stmt& position = *loop.body.back()->body[0];
  return stays_inside(position, ranges_of_scratch(loop));
}

// J13: a check is left out only where every element of the scratch was kept in the range
TEST(PositionsAheadTest, OnlyPositionsKeptInRangeGoUnchecked) {
  const std::string kept = "for i0 in 0..8 { t1[i0] = min.i64(max.i64(t0[i0], 0:i64), 7:i64) }\n";
  EXPECT_TRUE(stays(kept));
  EXPECT_TRUE(stays("for i0 in 0..8 { t1[i0] = min.i64(max.i64(t0[i0], 2:i64), 5:i64) }\n"));
  EXPECT_FALSE(stays("for i0 in 0..8 { t1[i0] = min.i64(max.i64(t0[i0], 0:i64), 8:i64) }\n"));
  EXPECT_FALSE(stays("for i0 in 0..8 { t1[i0] = min.i64(max.i64(t0[i0], -1:i64), 7:i64) }\n"));
  EXPECT_FALSE(stays("for i0 in 0..8 { t1[i0] = max.i64(min.i64(t0[i0], 7:i64), 0:i64) }\n"))
      << "the other way round is not looked for";
  EXPECT_FALSE(stays("for i0 in 0..8 { t1[i0] = min.i64(t0[i0], 7:i64) }\n"));
  EXPECT_FALSE(stays(kept + "t1[0] = t0[0]\n"));
  EXPECT_FALSE(stays(kept + "zero t1\n"));
  EXPECT_FALSE(stays(""));
}

}  // namespace
}  // namespace heddle::jit::testing
