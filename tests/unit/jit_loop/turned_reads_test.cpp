// Arrays that are turned once for several nests, and for chains of functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <set>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t side_length = 20;

std::int64_t turned_arrays(const Program& program) {
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  return std::ranges::count(made.tensors, "turned", &Tensor::label);
}

struct Square {
  const Tensor x{"x", f32, {side_length, side_length}}, y{"y", f32, {side_length, side_length}},
      z{"z", f32, {side_length, side_length}}, sums{"sums", f32, {side_length}};
  const Index i, k;
};

// J9: nests that read the same array across share the turned one
TEST(TurnedReadsTest, NestsShareThem) {
  const Square s;
  Program two("two"), one("one"), other("other");
  const Tensor kept("kept", f32, {side_length, side_length});
  two << (kept(s.i, s.k) = s.x(s.k, s.i) * s.y(s.i, s.k)) << (s.sums(s.i) = sum(kept(s.i, s.k)))
      << (s.z(s.i, s.k) = s.x(s.k, s.i) - s.y(s.i, s.k));
  expect_unchanged(two);
  EXPECT_EQ(turned_arrays(two), 1);
  one << (s.z(s.i, s.k) = s.x(s.k, s.i) - s.y(s.i, s.k));
  EXPECT_EQ(turned_arrays(one), 0);
}

// J9: what is computed from elements across alone is turned, in place of each of them
TEST(TurnedReadsTest, ValuesAreTurnedOnce) {
  const Square s;
  Program sums_of("sums"), apart("apart"), chain("chain");
  const auto blocks = [](const Program& program) {
    expect_unchanged(program);
    const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
    std::set<LocalId> found;
    walk(made.loop.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::assign && stmt.subscripts.size() == 2) found.insert(stmt.local);
    });
    return found.size();
  };
  const auto of_one = [&] {
    Program one("one");
    one << (s.z(s.i, s.k) = s.x(s.k, s.i) * 2);
    return blocks(one);
  }();
  sums_of << (s.z(s.i, s.k) = s.x(s.k, s.i) - 0.5 * s.y(s.k, s.i));
  EXPECT_EQ(blocks(sums_of), of_one);
  apart << (s.z(s.i, s.k) = s.x(s.k, s.i) * s.z(s.i, s.k) - s.y(s.k, s.i));
  EXPECT_EQ(blocks(apart), 2 * of_one);
  chain << (s.z(s.i, s.k) = tanh(exp((s.x(s.k, s.i) - s.y(s.k, s.i)) * s.z(s.i, s.k))));
  expect_unchanged(chain);
  EXPECT_EQ(turned_arrays(chain), 1);
}

// J9: scratch lies turned where fewer nests are transposes then
TEST(TurnedReadsTest, ScratchIsTurnedForFewerTransposes) {
  const Square s;
  const Tensor kept("kept", f32, {side_length, side_length});
  const auto transposes = [](const Program& program) {
    expect_unchanged(program);
    const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
    const std::string found = comments(made.loop);
    return std::ranges::count(found, ':');  // each names one
  };
  Program both("both"), across("across"), along("along"), running("running");
  const Index n(side_length - 1);
  running << (kept(s.i, s.k) = exp(s.x(s.i, s.k)))
          << (kept(n + 1, s.k) = kept(n, s.k) + kept(n + 1, s.k))
          << (s.z(s.i, s.k) = kept(s.k, s.i)) << (s.y(s.i, s.k) = kept(s.k, s.i) + 1);
  EXPECT_EQ(turned_arrays(running), 1) << "rows that follow from each other stay";
  both << (kept(s.i, s.k) = exp(s.x(s.k, s.i)))
       << (s.z(s.i, s.k) = kept(s.i, s.k) * kept(s.k, s.i));
  EXPECT_EQ(transposes(both), 1);
  across << (kept(s.i, s.k) = exp(s.x(s.k, s.i))) << (s.z(s.i, s.k) = kept(s.k, s.i))
         << (s.y(s.i, s.k) = kept(s.k, s.i) + 1);
  EXPECT_EQ(transposes(across), 0);
  along << (kept(s.i, s.k) = exp(s.x(s.k, s.i)))
        << (s.z(s.i, s.k) = kept(s.i, s.k) * kept(s.i, s.k - 0));
  EXPECT_EQ(transposes(along), 1);
}

// J9: a chain of functions runs as elementwise code: where its operands lie, if they all lie
// across, else where they were turned to; one function runs where elements are turned
TEST(TurnedReadsTest, ChainsReadThem) {
  const Square s;
  Program chain("chain"), mixed("mixed"), one("one"), two("two");
  const auto computed = [](const Program& program) {
    expect_unchanged(program);
    const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
    return std::ranges::count(made.tensors, "functions of columns", &Tensor::label);
  };
  chain << (s.z(s.i, s.k) = tanh(exp(s.x(s.k, s.i)) * s.y(s.k, s.i)));
  EXPECT_EQ(computed(chain), 1);
  const Lowered made = schedule(optimize(lower(chain)), with_isa(native_target(), Isa::avx512));
  std::set<Op> before;  // the turn
  walk_values({made.loop.body.front()}, [&](const Value& v) {
    if (v.kind == ValueKind::op) before.insert(v.op);
  });
  EXPECT_TRUE(before.contains(Op::exp) && !before.contains(Op::tanh)) << print(made.loop);
  EXPECT_EQ(turned_arrays(chain), 0);
  two << (s.z(s.i, s.k) = tanh(exp(s.x(s.k, s.i)) * s.y(s.i, s.k)));
  EXPECT_EQ(computed(two), 1);
  EXPECT_EQ(turned_arrays(two), 0);
  mixed << (s.z(s.i, s.k) = tanh(exp(s.x(s.k, s.i) * s.y(s.i, s.k))));
  EXPECT_EQ(computed(mixed), 0);
  EXPECT_EQ(turned_arrays(mixed), 1);
  one << (s.z(s.i, s.k) = tanh(s.x(s.k, s.i)) * exp(s.y(s.i, s.k)));
  EXPECT_EQ(computed(one), 0);
  EXPECT_EQ(turned_arrays(one), 0);
}

// J9: functions that lanes cannot compute are computed ahead, along the rows that lie across
TEST(TurnedReadsTest, FunctionsWithoutLanesAreComputedAhead) {
  const Square s;
  Program sines("sines"), two("two");
  sines << (s.z(s.i, s.k) = sin(s.x(s.k, s.i)) + s.y(s.i, s.k));
  two << (s.z(s.i, s.k) =
              sin(s.x(s.k, s.i)) * cos(s.y(s.k, s.i)) + sin(s.y(s.k, s.i)) * s.z(s.i, s.k));
  for (const Program* program : {&sines, &two}) {
    expect_unchanged(*program);
    const Lowered made =
        schedule(optimize(lower(*program)), with_isa(native_target(), Isa::avx512));
    EXPECT_NE(comments(made.loop).find("turned in registers"), std::string::npos)
        << print(made.loop);
  }
}

// D9: an array that is written between two nests is turned for neither
TEST(TurnedReadsTest, WrittenArraysAreNotShared) {
  const Square s;
  Program program("written");
  program << (s.z(s.i, s.k) = s.x(s.k, s.i) * s.y(s.i, s.k)) << (s.x(s.i, s.k) = s.y(s.i, s.k) + 1)
          << (s.y(s.i, s.k) = s.x(s.k, s.i) + s.z(s.i, s.k));
  expect_unchanged(program);
  EXPECT_EQ(turned_arrays(program), 0);
}

}  // namespace
}  // namespace heddle::jit::testing
