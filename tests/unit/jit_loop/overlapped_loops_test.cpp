// Loops of a block that are fused with a shift.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>

#include "jit/schedule/overlapped_loops.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

constexpr int lane_count = 16, group_count = 6;

const std::string row_reads = "nearest i2 in 0..40 = t0[i1] { t2[i1] = add.f32(t1[i2], t3[0]) }\n";

std::string two_loops(const std::string& first, const std::string& second,
                      int rows = lane_count * group_count, int count = group_count) {
  return fmt::format("for i1 in 0..{} {{\n{}}}\nfor i3 in 0..{} {{\n{}}}\n", rows, first, count,
                     second);
}
/// A vector of the second loop.
std::string vector_of(const std::string& statement) {
  return fmt::format("lanes i4 in 0..{} {{ {} }}\n", lane_count, statement);
}
const std::string roots = vector_of("t4[i0, 16*i3 + i4] = sqrt.f32(t2[16*i3 + i4])");

Lowered two_loop_kernel(const std::string& body) {
  return lowered_from(
      "buffer t0 input i64[200]\nbuffer t1 input f32[40]\nbuffer t2 scratch f32[200]\n"
      "buffer t3 input f32[1]\nbuffer t4 output f32[2,200]\nkernel {\n" +
      body + "}\n");
}

/// Whether the loops, inside another, are fused: the results stay.
bool overlap(const std::string& body) {
  const Lowered plain = two_loop_kernel("for i0 in 0..2 {\n" + body + "}\n");
  Lowered made = plain;
  Fresh fresh(made.loop);
  made.loop.body = renumbered(with_overlapped_loops(fresh, made.loop.body));
  EXPECT_TRUE(verify(made.loop).ok()) << print(made.loop);
  std::vector<HostArray> expected, found;
  for (std::size_t k = 0; k < plain.loop.buffers.size(); ++k) {
    expected.push_back(small_numbers(plain.loop.buffers[k].type, k));
    found.push_back(small_numbers(plain.loop.buffers[k].type, k));
  }
  interpret(plain.loop, expected);
  interpret(made.loop, found);
  EXPECT_TRUE(same_elements(expected[4], found[4])) << print(made.loop);
  return print(made.loop) != print({plain.loop.buffers, {}, renumbered(plain.loop.body)});
}

// J9: the first loop is ahead, and each of its iterations runs once
TEST(OverlappedLoopsTest, RowsAreReadAhead) {
  EXPECT_TRUE(overlap(two_loops(row_reads, roots)));
  const std::string two =
      vector_of("t4[i0, 32*i3 + i4] = sub.f32(t2[32*i3 + i4], t2[32*i3 + i4 + 16])");
  EXPECT_TRUE(overlap(two_loops(row_reads, two, 32 * group_count))) << "two vectors of rows";
}

// J9: rows of other group_count, of other orders, and what the second loop changes, come first
TEST(OverlappedLoopsTest, OthersStay) {
  const auto stays = [](const std::string& statement) {
    EXPECT_FALSE(overlap(two_loops(row_reads, vector_of(statement)))) << statement;
  };
  stays("t4[i0, 16*i3 + i4] = t2[16*i3 + i4 + 1]");
  stays("t4[i0, 16*i3 + i4] = t2[-16*i3 - i4 + 95]");
  stays("t4[i0, 16*i3 + i4] = t2[i4]");
  stays("t2[16*i3 + i4] = t1[i4]");
  stays("t4[i0, 16*i3 + i4] = t1[i4]");
  EXPECT_FALSE(overlap(two_loops(row_reads, roots, lane_count * group_count + 1))) << "a rest";
  EXPECT_FALSE(overlap(two_loops(row_reads, roots, lane_count * 4, 4))) << "few groups";
  EXPECT_FALSE(overlap(two_loops("t2[i1] = t3[0]\n", roots))) << "no positions";
  EXPECT_FALSE(overlap("let x0: f32 = 0:f32\n" +
                       two_loops("nearest i2 in 0..40 = t0[i1] { x0 = t1[i2]\n t2[i1] = x0 }\n",
                                 vector_of("t4[i0, 16*i3 + i4] = add.f32(x0, t2[16*i3 + i4])"))))
      << "a local of both";
}

// J9: loops of the top level may run in parts, one after the other
TEST(OverlappedLoopsTest, LoopsOfTheTopLevelStay) {
  const Lowered plain =
      two_loop_kernel("for i0 in 0..1 { t4[1, i0] = 1:f32 }\n" +
                      two_loops(row_reads, vector_of("t4[0, 16*i3 + i4] = t2[16*i3 + i4]")));
  Fresh fresh(plain.loop);
  EXPECT_EQ(with_overlapped_loops(fresh, plain.loop.body).size(), plain.loop.body.size());
}

/// Unit vectors of differences of points, beside a short product.
Program turned_unit_vectors(std::int64_t count) {
  const Tensor k("k", i64, {count}), x("x", f32, {40, 3}), length("length", f32, {count}),
      y("y", f32, {count, 3}), m("m", f32, {3, 3}), turned("turned", f32, {count, 3});
  Tensor d("d", f32, {count, 3});
  d.set_mode(MemoryMode::local);
  const Index row, across, i, j, l;
  Program program("unit_vectors");
  program << (d(row, across) = x(at(k(row)), across) - x(0, across))
          << (length(row) += d(row, across) * d(row, across))
          << (y(row, across) = d(row, across) / sqrt(length(row)))
          << (turned(i, j) += y(i, l) * m(l, j));
  return program;
}

// J9: a whole schedule has such loops, and its blocks still run in parts
TEST(OverlappedLoopsTest, BlocksRunInParts) {
  for (const std::int64_t count : {8000, 5000}) expect_unchanged(turned_unit_vectors(count));
  const Lowered made =
      schedule(optimize(lower(turned_unit_vectors(8000))), with_isa(native_target(), Isa::avx512));
  ASSERT_FALSE(made.loop.body.empty());
  EXPECT_EQ(made.loop.body[0]->mark, LoopMark::parallel) << print(made.loop);
  bool is_ahead = false;
  walk(made.loop.body, [&](const Stmt& stmt) {
    is_ahead =
        is_ahead || (stmt.kind == StmtKind::loop && stmt.body.size() == 2 &&
                     stmt.body[0]->kind == StmtKind::loop && stmt.body[1]->mark == LoopMark::lanes);
  });
  EXPECT_TRUE(is_ahead) << print(made.loop);
}

}  // namespace
}  // namespace heddle::jit::testing
