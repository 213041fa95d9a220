// Scratch is computed only as far as it is read.
#include "jit/schedule/unread_elements.hpp"

#include <gtest/gtest.h>

#include <string>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

/// The kernel's last scratch as the pass leaves it. The schedule must give the kernel's numbers.
std::string left(const std::string& text) {
  Lowered lowered = lowered_from(text);
  expect_unchanged(lowered);
  drop_unread_elements(lowered);
  EXPECT_TRUE(verify(lowered.loop).ok()) << print(lowered.loop);
  std::string type = "none";
  for (const BufferDecl& each : lowered.loop.buffers) {
    if (each.role == Role::scratch) type = each.type.to_string();
  }
  return type;
}

constexpr const char* product_buffers =
    "buffer t0 input f32[20,3]\nbuffer t1 input f32[3,24]\nbuffer t2 scratch f32[20,24]\n"
    "buffer t3 output f32[40]\nbuffer t4 inout i64[1]\n";
constexpr const char* product =
    "for i0 in 0..20 {\nfor i1 in 0..24 {\nlet x0: f32 = 0:f32\nfor i2 in 0..3 {\n"
    "x0 = add.f32(x0, mul.f32(t0[i0, i2], t1[i2, i1]))\n}\nt2[i0, i1] = x0\n}\n}\n";

/// For `count` values of i3, and for as many of i4, a read each of the product.
std::string read_at(int count, const std::string& first, const std::string& second,
                    const std::string& computed = product) {
  const std::string to = "0.." + std::to_string(count);
  return product_buffers + std::string("kernel {\nzero t3\n") + computed + "for i3 in " + to +
         " {\nt3[i3] = t2[" + first + "]\n}\nfor i4 in " + to + " {\nt3[i4 + 20] = t2[" + second +
         "]\n}\n}\n";
}

// J9: from the first place to the last on each axis, or a few with equal gaps
TEST(UnreadElementsTest, PlacesThatAreReadAreLeft) {
  EXPECT_EQ(left(read_at(20, "i3, 7", "i4, 7")), "f32[20,1]");
  EXPECT_EQ(left(read_at(20, "i3, 7", "i4, 8")), "f32[20,2]");
  EXPECT_EQ(left(read_at(20, "i3, 2", "i4, 23")), "f32[20,2]") << "a gap of 21";
  EXPECT_EQ(left(read_at(7, "i3 + 2, 3*i3", "i4, 3*i4 + 3")), "f32[9,8]") << "gaps of 3";
  EXPECT_EQ(left(read_at(8, "-i3 + 19, 2*i3", "i4 + 12, 2*i4")), "f32[8,15]")
      << "half of the places";
  EXPECT_EQ(left(read_at(4, "19, i3", "18, i4 + 6")), "f32[2,10]");
  EXPECT_EQ(left(read_at(20, "i3, i3 + 4", "i4, -i4 + 19")), "f32[20,24]") << "all";
}

// J9: positions from data reach all that their range allows
TEST(UnreadElementsTest, PositionsReachTheirRange) {
  const auto at = [](const std::string& range) {
    return product_buffers + std::string("kernel {\nzero t3\n") + product + "nearest i3 in " +
           range + " = t4[0] {\nt3[0] = t2[i3, 5]\n}\n}\n";
  };
  EXPECT_EQ(left(at("0..20")), "f32[20,1]");
  EXPECT_EQ(left(at("4..10")), "f32[6,1]");
}

// J9: scratch that is computed from scratch is computed only as far as that is read
TEST(UnreadElementsTest, ScratchBeforeIsLeftToo) {
  EXPECT_EQ(left("buffer t0 input f32[9,9]\nbuffer t1 scratch f32[9,9]\n"
                 "buffer t2 scratch f32[9,9]\nbuffer t3 output f32[4]\n"
                 "kernel {\nfor i0 in 0..9 {\nfor i1 in 0..9 {\nt2[i0, i1] = exp.f32(t0[i0, i1])\n"
                 "}\n}\nfor i2 in 0..9 {\nlet x0: f32 = 0:f32\nfor i3 in 0..9 {\n"
                 "x0 = add.f32(x0, t2[i2, i3])\n}\nt1[i2, 0] = x0\n}\n"
                 "for i4 in 0..4 {\nt3[i4] = t1[i4 + 3, 0]\n}\n}\n"),
            "f32[4,9]");
}

// J9: rows lose an eighth or more, other axes whatever is not read; reads by flat places read all
TEST(UnreadElementsTest, RowsStayWhole) {
  EXPECT_EQ(left(read_at(16, "i3, i3", "i4, i4 + 6")), "f32[16,24]");
  EXPECT_EQ(left(read_at(16, "i3 + 3, i3", "i4 + 3, i4 + 5")), "f32[16,21]");
  Lowered flat = lowered_from(
      "buffer t0 input f32[4,6]\nbuffer t1 scratch f32[4,6]\nbuffer t2 output f32[4]\n"
      "kernel {\nfor i0 in 0..4 {\nfor i1 in 0..6 {\nt1[i0, i1] = t0[i0, i1]\n}\n}\n"
      "for i2 in 0..4 {\nt2[i2] = t1[i2]\n}\n}\n");
  drop_unread_elements(flat);
  EXPECT_EQ(flat.loop.buffers[1].type.to_string(), "f32[4,6]");
}

// J9: a long statement is left as it is: each scratch in it would walk it
TEST(UnreadElementsTest, LongStatementsAreLeft) {
  const auto first_row_left = [](int rows) {
    const std::string count = std::to_string(rows);
    std::string text = "buffer t0 input f32[4]\nbuffer t1 scratch f32[" + count +
                       ",4]\nbuffer t2 output f32[4]\nkernel {\nfor i0 in 0..4 {\n";
    for (int row = 0; row < rows; ++row) text += "t1[" + std::to_string(row) + ", i0] = t0[i0]\n";
    Lowered lowered = lowered_from(text + "}\nfor i1 in 0..4 {\nt2[i1] = t1[0, i1]\n}\n}\n");
    drop_unread_elements(lowered);
    return lowered.loop.buffers[1].type.dims[0] == 1;
  };
  EXPECT_TRUE(first_row_left(200));
  EXPECT_FALSE(first_row_left(300));
}

// J9: the loops over what is left begin at 0: schedules see products and sums of pieces as before
TEST(UnreadElementsTest, LoopsBeginAtZero) {
  const std::string pieces =
      "for i0 in 0..7 {\nfor i1 in 0..24 {\nt2[i0, i1] = t1[2, i1]\n}\n}\n"
      "for i5 in 0..13 {\nfor i6 in 0..24 {\nt2[i5 + 7, i6] = exp.f32(t1[2, i6])\n}\n}\n";
  Lowered lowered = lowered_from(read_at(12, "i3 + 5, i3", "i4 + 5, i4 + 12", pieces));
  drop_unread_elements(lowered);
  int loops = 0;
  walk(lowered.loop.body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::loop) return;
    ++loops;
    EXPECT_EQ(stmt.from, 0) << print(lowered.loop);
  });
  EXPECT_EQ(loops, 6) << print(lowered.loop);
}

// J9, J13: an element that others are computed from is read
TEST(UnreadElementsTest, RunningSumsReadWhatIsBefore) {
  const std::string running =
      "for i0 in 0..24 {\nt2[0, i0] = t1[0, i0]\n}\nfor i1 in 0..10 {\nfor i2 in 0..24 {\n"
      "t2[i1 + 1, i2] = add.f32(t2[i1, i2], t1[0, i2])\n}\n}\n";
  EXPECT_EQ(left(read_at(5, "6, i3", "10, i4 + 5", running)), "f32[11,10]");
  const std::string in_local =
      "for i0 in 0..20 {\nlet x0: f32 = 0:f32\nfor i1 in 0..24 {\nx0 = add.f32(x0, t1[0, i1])\n"
      "t2[i0, i1] = x0\n}\n}\n";
  EXPECT_EQ(left(read_at(5, "6, i3", "6, i4 + 5", in_local)), "f32[1,24]")
      << "the local goes through all columns";
}

// J9: elements that a statement stores alone, and pieces of which nothing is read
TEST(UnreadElementsTest, PiecesThatNobodyReadsAreDropped) {
  const std::string pieces =
      "for i0 in 0..24 {\nt2[0, i0] = t1[0, i0]\nt2[19, i0] = t1[1, i0]\n}\n"
      "for i1 in 0..6 {\nfor i2 in 0..24 {\nt2[i1 + 1, i2] = t1[2, i2]\n}\n}\n"
      "for i5 in 0..12 {\nfor i6 in 0..24 {\nt2[i5 + 7, i6] = exp.f32(t1[2, i6])\n}\n}\n";
  EXPECT_EQ(left(read_at(5, "i3 + 2, i3", "19, i4", pieces)), "f32[18,5]");
  EXPECT_EQ(left(read_at(5, "i3 + 2, i3", "6, i4", pieces)), "f32[5,5]");
}

}  // namespace
}  // namespace heddle::jit::testing
