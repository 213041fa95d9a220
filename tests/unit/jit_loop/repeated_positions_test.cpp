// Positions that many rows have in common, computed once for them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

/// The type of the first array of positions in the schedule; an empty text if there is none.
std::string kept_positions(const Lowered& plain) {
  expect_unchanged(plain);
  const Lowered made = schedule(plain, with_isa(native_target(), Isa::avx512));
  const auto found = std::ranges::find(made.tensors, "positions", &Tensor::label);
  if (found == made.tensors.end()) return {};
  return made.loop.buffers[static_cast<std::size_t>(found - made.tensors.begin())].type.to_string();
}
std::string kept_positions(const Program& program) {
  return kept_positions(optimize(lower(program)));
}

const Index of_image, of_line, at_place, of_channel;

Program rows_taken(std::int64_t rows, std::int64_t places, DType type = i64) {
  const Tensor k("k", type, {places}), x("x", f32, {3, rows, 40}), y("y", f32, {3, rows, places});
  Program program("taken");
  program << (y(of_image, of_line, at_place) = x(of_image, of_line, at(k(at_place))));
  return program;
}

// J9, J13: rows that read at the same positions find them in their range, those outside included
TEST(RepeatedPositionsTest, RowsShareThem) {
  EXPECT_EQ(kept_positions(rows_taken(8, 50)), "i64[50]");
  EXPECT_EQ(kept_positions(rows_taken(8, 64, i32)), "i32[64]");
  EXPECT_EQ(kept_positions(rows_taken(7, 50)), "") << "too few rows";
  EXPECT_EQ(kept_positions(rows_taken(8, 2049)), "i64[256]")
      << "too many positions to keep for all rows";
  EXPECT_EQ(kept_positions(rows_taken(8, 50, u64)), "") << "checked in another way";
}

// J13: positions of each image are computed for each image
TEST(RepeatedPositionsTest, PositionsMayDependOnTheOuterLoop) {
  const Tensor k("k", i64, {3, 50}), x("x", f32, {3, 9, 40}), y("y", f32, {3, 9, 50});
  Program program("each");
  program << (y(of_image, of_line, at_place) = x(of_image, of_line, at(k(of_image, at_place))));
  EXPECT_EQ(kept_positions(program), "i64[50]");
}

// J13: each of several positions is computed by loops of its own
TEST(RepeatedPositionsTest, EachHasItsLoops) {
  const Tensor k("k", i64, {3, 2, 5}), x("x", f32, {2, 8, 40, 40}), y("y", f32, {2, 8, 3, 5});
  const Index of_row;
  Program program("several");
  program << (y(of_image, of_line, of_row, at_place) =
                  x(of_image, of_line, at(k(of_row, 0, at_place)), at(k(of_row, 1, at_place))));
  EXPECT_EQ(kept_positions(program), "i64[3,5]");
}

// J9: rows of more than four elements are not worth it
TEST(RepeatedPositionsTest, WideRowsAreChecked) {
  for (const std::int64_t width : {4, 5}) {
    const Tensor k("k", i64, {50}), x("x", f32, {3, 9, 40, width}), y("y", f32, {3, 9, 50, width});
    Program program("wide");
    program << (y(of_image, of_line, at_place, of_channel) =
                    x(of_image, of_line, at(k(at_place)), of_channel));
    EXPECT_EQ(kept_positions(program), width == 4 ? "i64[50]" : "");
  }
}

// J13: positions that the loop itself changes are computed where they stand
TEST(RepeatedPositionsTest, ChangedPositionsStay) {
  const auto kernel = [](const std::string& behind) {
    return lowered_from(
        "buffer t0 input f32[9,40]\nbuffer t1 inout i64[50]\nbuffer t2 output f32[3,9,50]\n"
        "kernel {\nfor i0 in 0..3 {\nfor i1 in 0..9 {\nfor i2 in 0..50 {\n"
        "nearest i3 in 0..40 = t1[i2] {\nt2[i0, i1, i2] = t0[i1, i3]\n}\n}\n}\n" +
        behind + "}\n}\n");
  };
  EXPECT_EQ(kept_positions(kernel("")), "i64[50]");
  EXPECT_EQ(kept_positions(kernel("for i4 in 0..50 {\nt1[i4] = add.i64(t1[i4], 1:i64)\n}\n")), "");
}

}  // namespace
}  // namespace heddle::jit::testing
