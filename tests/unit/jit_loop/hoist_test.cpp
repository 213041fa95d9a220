// Values that iterations share: computed once, and no bit of them changes.
#include <gtest/gtest.h>

#include <cmath>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_contraction.hpp"

namespace heddle::jit::testing {
namespace {

/// How often a run of the kernel computes the operation, lanes counted each.
std::int64_t count_of(Op op, const Block& body, std::int64_t runs = 1) {
  std::int64_t count = 0;
  for (const StmtPtr& stmt : body) {
    if (stmt->kind == StmtKind::loop)
      count += count_of(op, stmt->body, runs * (stmt->to - stmt->from));
    if (!stmt->value) continue;
    walk(*stmt->value, [&](const Value& v) {
      if (v.kind == ValueKind::op && v.op == op) count += runs;
    });
  }
  return count;
}

std::vector<HostArray> results(const Loop& loop) {
  std::vector<HostArray> arrays;
  for (std::size_t k = 0; k < loop.buffers.size(); ++k)
    arrays.push_back(small_numbers(loop.buffers[k].type, k));
  interpret(loop, arrays);
  return arrays;
}

/// The schedule, which computes what the plain loops do.
Loop hoisted(const Program& program) {
  const Lowered before = optimize(lower(program));
  const Lowered after = schedule(before, tiny_target(Isa::avx2));
  EXPECT_TRUE(verify(after.loop).ok());
  const std::vector<HostArray> expected = results(before.loop), found = results(after.loop);
  for (std::size_t k = 0; k < expected.size(); ++k) {
    if (before.loop.buffers[k].role == Role::scratch) continue;
    EXPECT_TRUE(same_elements(expected[k], found[k])) << print(after.loop);
  }
  return after.loop;
}

// J9: values of some of the loops alone are computed once for each of those
TEST(HoistTest, SharedValuesAreStored) {
  const Tensor a("a", f32, {20, 40}), b("b", f32, {20}), c("c", f32, {40}), d("d", f32, {}),
      y("y", f32, {20, 40});
  const Index i, j;
  Program program("shared");
  program << (y(i, j) = a(i, j) * exp(b(i)) + sin(c(j)) * log(d()) - exp(b(i)));
  const Loop loop = hoisted(program);
  EXPECT_EQ(count_of(Op::exp, loop.body), 20) << print(loop);
  EXPECT_EQ(count_of(Op::sin, loop.body), 40);
  EXPECT_EQ(count_of(Op::log, loop.body), 1);
}

// J9: sums of terms that are computed where they are added stay sums of vectors
TEST(HoistTest, SumsOfRecomputedValuesStayVectors) {
  const Tensor x("x", f32, {20, 640}), mean("mean", f32, {20}), d("d", f32, {20, 640}),
      variance("variance", f32, {20}), e("e", f32, {20, 640}), rows("rows", f32, {20});
  const Index i, j;
  Program program("variance"), dear("dear");
  program << (d(i, j) = x(i, j) - mean(i)) << (variance(i) = sum(d(i, j) * d(i, j)));
  const std::string text = print(hoisted(program));
  EXPECT_EQ(text.find("scratch"), std::string::npos) << text;
  EXPECT_NE(text.find("reduction: "), std::string::npos) << text;
  e.set_mode(MemoryMode::virtual_);
  // Powers of two are exact, so sums of any order are.
  dear << (e(i, j) = exp2(x(i, j))) << (rows(i) = sum(e(i, j) * e(i, j) + e(i, j)));
  EXPECT_EQ(count_of(Op::exp2, hoisted(dear).body), 20 * 640);
}

// J9: sums next to which values are stored stay sums of vectors
TEST(HoistTest, SumsOfSharedValuesStayVectors) {
  const Tensor x("x", f32, {20, 64}), b("b", f32, {64}), s("s", f32, {});
  const Index i, j;
  Program program("weighted");
  program << (s() = sum(x(i, j) * log(b(j))));
  const Loop loop = hoisted(program);
  EXPECT_EQ(count_of(Op::log, loop.body), 64) << print(loop);
  EXPECT_NE(print(loop).find("reduction: "), std::string::npos) << print(loop);
}

// J9: what depends on what the nest itself makes is computed before the loop that does not change
// it
TEST(HoistTest, WhatTheNestMakesIsComputedBeforeTheInnerLoop) {
  const Tensor a("a", f32, {20, 400}), y("y", f32, {20, 400}), total("total", f32, {20});
  const Index i, j;
  total.set_mode(MemoryMode::local);
  Program program("rows");
  program << (total(i) = sum(a(i, j))) << (y(i, j) = a(i, j) * exp(total(i)));
  const Loop loop = hoisted(program);
  EXPECT_EQ(count_of(Op::exp, loop.body), 20) << print(loop);
}

// J9: what neighbouring statements have in common is computed once, until what it reads is changed
TEST(HoistTest, StatementsShareValues) {
  const Tensor a("a", f32, {40}), x("x", f32, {40}), y("y", f32, {40}), z("z", f32, {40});
  const Index i;
  Program common("common"), changed("changed");
  common << (y(i) = a(i) * exp(x(i))) << (z(i) = exp(x(i)) - log(a(i)) * exp(x(i)));
  EXPECT_EQ(count_of(Op::exp, hoisted(common).body), 40);
  changed << (y(i) = exp(x(i))) << (x(i) = a(i)) << (z(i) = exp(x(i)) + exp(x(i)));
  EXPECT_EQ(count_of(Op::exp, hoisted(changed).body), 80);
}

void expect_to_stay(const Program& program) {
  const Lowered plain = optimize(lower(program));
  const std::vector<ScheduleStep> without{ScheduleStep::hoist};
  const Target target = tiny_target(Isa::avx2);
  EXPECT_EQ(print(schedule(plain, target).loop), print(schedule(plain, target, without).loop));
}

// J9: what is sooner computed than loaded stays, and so does what is used once, changed on the way,
// or too large
TEST(HoistTest, OtherValuesStay) {
  const Tensor a("a", f32, {20, 40}), b("b", f32, {20}), y("y", f32, {20, 40});
  const Index i, j, k;
  Program cheap("cheap"), once("once"), changed("changed"), large("large");
  expect_to_stay(cheap << (y(i, j) = a(i, j) * (b(i) + 1)));
  expect_to_stay(once << (y(i, j) = exp(a(i, j)) + b(i)));
  expect_to_stay(changed << (y(i, j) += exp(y(0, 0)) * b(i)));
  const Tensor x("x", f32, {1 << 12, 1 << 12}), z("z", f32, {1 << 12, 1 << 12, 16});
  expect_to_stay(large << (z(i, j, k) = exp(x(i, j))));
}

}  // namespace
}  // namespace heddle::jit::testing
