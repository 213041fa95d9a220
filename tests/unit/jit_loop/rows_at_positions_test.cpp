// Short rows at computed positions.
#include <gtest/gtest.h>

#include <cstdint>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

/// The number of loops over `count` lanes in the schedule.
std::int64_t lanes_of(const Program& program, std::int64_t count, Isa isa = Isa::avx512) {
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), isa));
  std::int64_t found = 0;
  walk(made.loop.body, [&](const Stmt& stmt) {
    found += stmt.kind == StmtKind::loop && stmt.mark == LoopMark::lanes && stmt.to == count;
  });
  return found;
}

const Index edge, axis;

Program differences(std::int64_t columns, DType type = f32) {
  const Tensor points("points", type, {40, columns}), from("from", i64, {100}),
      to("to", i64, {100}), out("out", type, {100, columns});
  Program program("differences");
  program << (out(edge, axis) = points(at(to(edge)), axis) - points(at(from(edge)), axis));
  return program;
}

Program sums(std::int64_t columns, DType type = f32) {
  const Tensor points("points", type, {40, columns}), to("to", i64, {100}),
      terms("terms", type, {100, columns});
  Program program("sums");
  program << (points(at(to(edge)), axis) += terms(edge, axis) * terms(edge, axis));
  return program;
}

// J9: rows that are read at positions, shorter than a vector, are read at once
TEST(RowsAtPositionsTest, RowsAreReadByMasks) {
  for (const std::int64_t columns : {3, 4, 7, 15})
    EXPECT_EQ(lanes_of(differences(columns), columns), 1);
  EXPECT_EQ(lanes_of(differences(3, f64), 3), 1);
  EXPECT_EQ(lanes_of(differences(3, i32), 3), 1);
  EXPECT_EQ(lanes_of(differences(2), 2), 0) << "two elements take as long alone";
  EXPECT_EQ(lanes_of(differences(3), 3, Isa::avx2), 0) << "no masks";
}

// J9: rows that are changed at positions are lanes where that takes no masked store
TEST(RowsAtPositionsTest, RowsAreChangedWithoutMasks) {
  for (const std::int64_t columns : {3, 4, 8}) EXPECT_EQ(lanes_of(sums(columns), columns), 1);
  for (const std::int64_t columns : {5, 7, 9}) EXPECT_EQ(lanes_of(sums(columns), columns), 0);
  EXPECT_EQ(lanes_of(sums(3, i32), 3), 1);
  EXPECT_EQ(lanes_of(sums(4, f64), 4), 1);
  EXPECT_EQ(lanes_of(sums(3, f64), 3), 0) << "no register has 24 bytes";
}

// J9: lanes subtract what they would negate and add
TEST(RowsAtPositionsTest, NegativeTermsAreSubtracted) {
  const Tensor sums("sums", f32, {40, 3}), to("to", i64, {100}), terms("terms", f32, {100, 3});
  Program program("forces");
  program << (sums(at(to(edge)), axis) += -terms(edge, axis));
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  const std::string text = print(made.loop);
  EXPECT_NE(text.find("sub.f32"), std::string::npos) << text;
  EXPECT_EQ(text.find("neg.f32"), std::string::npos) << text;
}

// J9: elements that lie across, or depend on each other, stay
TEST(RowsAtPositionsTest, OthersStay) {
  const Tensor points("points", f32, {3, 40}), k("k", i64, {100}), out("out", f32, {100, 3}),
      line("line", f32, {40});
  Program across("across"), one("one");
  across << (out(edge, axis) = points(axis, at(k(edge))));
  EXPECT_EQ(lanes_of(across, 3), 0);
  one << (line(at(k(edge))) += out(edge, axis));
  EXPECT_EQ(lanes_of(one, 3), 0);
  const Tensor boxes("boxes", f32, {40, 50, 3}), read("read", f32, {100, 50, 3}),
      rows("rows", f32, {40, 4});
  const Index row, part(3);
  Program inside("inside"), shifted("shifted");
  inside << (read(edge, row, axis) = boxes(at(k(edge)), row, axis));
  EXPECT_EQ(lanes_of(inside, 3), 0) << "150 elements lie together";
  shifted << (rows(at(k(edge)), part + 1) = rows(at(k(edge)), part));
  EXPECT_EQ(lanes_of(shifted, 3), 0);
}

}  // namespace
}  // namespace heddle::jit::testing
