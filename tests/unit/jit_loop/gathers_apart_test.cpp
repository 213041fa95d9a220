// Functions of elements at computed positions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

struct Table {
  const Tensor x{"x", f32, {40}}, rows{"rows", f32, {40, 3}}, wide{"wide", f32, {40, 16}},
      k{"k", i64, {100}}, m{"m", i64, {100}}, y{"y", f32, {100}}, z{"z", f32, {100, 3}},
      out{"out", f32, {100, 16}};
  const Index i, c;
};

/// Arrays of elements that the schedule reads before it computes with them.
std::int64_t elements_apart(const Program& program) {
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  return std::ranges::count(made.tensors, "elements at positions", &Tensor::label);
}

// J9: functions of elements at positions are vector code; each element is read once
TEST(GathersApartTest, FunctionsRunInVectors) {
  const Table t;
  Program one("one"), two("two"), rows("rows");
  one << (t.y(t.i) = exp(t.x(at(t.k(t.i)))) * t.x(at(t.k(t.i))));
  EXPECT_EQ(elements_apart(one), 1);
  two << (t.y(t.i) = exp(t.x(at(t.k(t.i))) - t.x(at(t.m(t.i)))));
  EXPECT_EQ(elements_apart(two), 2);
  rows << (t.z(t.i, t.c) = exp(t.rows(at(t.k(t.i)), t.c)));
  EXPECT_EQ(elements_apart(rows), 1);
}

// D9: cheap code, rows that hold vectors, and arrays that the nest writes stay
TEST(GathersApartTest, OthersStay) {
  const Table t;
  Program cheap("cheap"), wide("wide"), own("own");
  cheap << (t.y(t.i) = t.x(at(t.k(t.i))) * 2);
  EXPECT_EQ(elements_apart(cheap), 0);
  wide << (t.out(t.i, t.c) = exp(t.wide(at(t.k(t.i)), t.c)));
  EXPECT_EQ(elements_apart(wide), 0);
  own << (t.y(t.i) = exp(t.y(at(t.k(t.i)))));
  EXPECT_EQ(elements_apart(own), 0);
}

// J9: loops that compute with what another loop reads at positions have a schedule of their own
TEST(GathersApartTest, LoopsOfFunctionsStayApart) {
  const Table t;
  const Tensor d("d", f32, {100, 3}), length("length", f32, {100});
  Program program("lengths");
  program << (d(t.i, t.c) = t.rows(at(t.k(t.i)), t.c) - t.rows(at(t.m(t.i)), t.c))
          << (length(t.i) = sum(d(t.i, t.c) * d(t.i, t.c)))
          << (t.z(t.i, t.c) = d(t.i, t.c) / sqrt(length(t.i)) / (length(t.i) + 1));
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  std::int64_t mixed = 0;
  for (const StmtPtr& nest : made.loop.body) {
    bool reads = false, divides = false;
    walk(Block{nest}, [&](const Stmt& stmt) { reads = reads || stmt.kind == StmtKind::at; });
    walk_values(Block{nest}, [&](const Value& v) {
      divides = divides || (v.kind == ValueKind::op && v.op == Op::div);
    });
    mixed += reads && divides ? 1 : 0;
  }
  EXPECT_EQ(mixed, 0) << print(made.loop);
}

}  // namespace
}  // namespace heddle::jit::testing
