// Builders, affine indices and structural equality of the loop IR.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "heddle/status.hpp"
#include "jit/loop/interval.hpp"
#include "jit/loop/loop.hpp"

namespace heddle::jit {
namespace {

// J5: affine indices have one form, whatever order they were built in
TEST(AffineTest, TermsAreSortedMergedAndNeverZero) {
  const Affine a = affine_add(affine_var(3, 2), affine_add(affine_static(0), affine_var(1)));
  const Affine b = affine_add(affine_static(0), affine_add(affine_var(1), affine_var(3, 2)));
  EXPECT_EQ(a, b);
  ASSERT_EQ(a.terms.size(), 3u);
  EXPECT_EQ(a.terms[0].id, 1u);
  EXPECT_EQ(affine_add(a, affine_scale(b, -1)), Affine());
  EXPECT_EQ(affine_scale(a, 0), Affine());
  EXPECT_EQ(affine_var(7, 0), Affine());
}

// J5: overflow is an internal error, never a wrapped subscript
TEST(AffineTest, OverflowThrows) {
  constexpr std::int64_t big = std::numeric_limits<std::int64_t>::max();
  EXPECT_THROW(static_cast<void>(affine_scale(affine_var(0, big), 2)), Error);
  EXPECT_THROW(static_cast<void>(affine_add(affine_var(0, big), affine_var(0, 1))), Error);
  EXPECT_THROW(static_cast<void>(affine_add(Affine{big, {}}, Affine{1, {}})), Error);
}

// J5: ranges of subscripts saturate instead of overflowing
TEST(IntervalTest, ManyHugeTermsStayOrdered) {
  constexpr std::int64_t big = std::numeric_limits<std::int64_t>::max();
  Interval reached;
  for (int k = 0; k < 1000; ++k) reached.add(k % 2 == 0 ? big : -big, 0, big);
  EXPECT_LT(reached.lowest, 0);
  EXPECT_GT(reached.highest, 0);
  EXPECT_FALSE(reached.inside(big));
  EXPECT_EQ(narrow(reached.highest), big);
  EXPECT_EQ(narrow(reached.lowest), std::numeric_limits<std::int64_t>::min());
  Interval one{3, 3};
  one.add(-2, 0, 1);
  EXPECT_TRUE(one.inside(4));
  EXPECT_FALSE(one.inside(3));
}

// J1, J5: operands are converted to the type that the operation computes in
TEST(BuilderTest, OperationsConvertTheirOperands) {
  const ValuePtr half = make_load(0, f16, {});
  const ValuePtr whole = make_load(1, i32, {});
  const ValuePtr sum = make_op(Op::add, {half, whole});
  EXPECT_EQ(sum->dtype, f32);
  EXPECT_EQ(sum->args[0]->kind, ValueKind::cast);
  EXPECT_EQ(sum->args[0]->dtype, f32);
  EXPECT_EQ(sum->args[1]->dtype, f32);
  const ValuePtr chosen = make_op(Op::where, {whole, half, half});
  EXPECT_EQ(chosen->args[0]->dtype, bool_);
  EXPECT_THROW(static_cast<void>(make_op(Op::add, {make_load(0, u64, {}), whole})), Error);
  EXPECT_EQ(make_cast(half, f16), half);
}

// J1: a conversion of a constant is a constant, rounded as its type rounds
TEST(BuilderTest, ConstantsConvertAtOnce) {
  const ValuePtr third = make_cast(make_constant(Scalar::of_float(f64, 1.0 / 3)), f16);
  EXPECT_EQ(third->kind, ValueKind::constant);
  EXPECT_EQ(third->dtype, f16);
  EXPECT_EQ(third->scalar, Scalar::of_float(f16, 1.0 / 3));
}

// J5: the text has one NaN and comments of one line, and so has the tree
TEST(BuilderTest, CanonicalForms) {
  const ValuePtr a =
      make_constant(Scalar::of_float(f64, -std::numeric_limits<double>::quiet_NaN()));
  const ValuePtr b = make_constant(Scalar::of_float(f64, std::nan("77")));
  EXPECT_TRUE(equal(*a, *b));
  EXPECT_EQ(make_comment("two\nlines\t")->text, "two lines ");
}

StmtPtr sample(double constant, std::int64_t to, Op op) {
  const ValuePtr value = make_op(
      op, {make_load(0, f32, {affine_var(0)}), make_constant(Scalar::of_float(f32, constant))});
  return make_loop(0, 0, to, {make_store(1, {affine_var(0)}, value)});
}

// J5: equality is structural, and tells -0 from 0
TEST(EqualityTest, ComparesTheWholeTree) {
  EXPECT_TRUE(equal(*sample(1, 4, Op::add), *sample(1, 4, Op::add)));
  EXPECT_FALSE(equal(*sample(1, 4, Op::add), *sample(2, 4, Op::add)));
  EXPECT_FALSE(equal(*sample(1, 4, Op::add), *sample(1, 5, Op::add)));
  EXPECT_FALSE(equal(*sample(1, 4, Op::add), *sample(1, 4, Op::sub)));
  EXPECT_FALSE(equal(*sample(0.0, 4, Op::add), *sample(-0.0, 4, Op::add)));
  const Loop a{{{Role::input, {f32, {4}}}}, {}, {sample(1, 4, Op::add)}};
  Loop b = a;
  EXPECT_TRUE(a == b);
  b.buffers[0].role = Role::inout;
  EXPECT_FALSE(a == b);
}

}  // namespace
}  // namespace heddle::jit
