// Lowering: what statements mean, shown by interpreting the loops they become.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>

#include "heddle/status.hpp"
#include "jit/loop/rewrite.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/lower/lower.hpp"
#include "jit/lower/passes.hpp"
#include "support/loop_interpreter.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

/// Runs a program on the host storage of its tensors, before and after optimising; gives back what
/// `result` holds.
class Execution {
 public:
  Execution& set(const Tensor& tensor, std::vector<double> values) {
    inputs_.emplace_back(tensor, HostArray::fill(tensor.type(), values, true));
    return *this;
  }
  Execution& set_merge(const Tensor& tensor, std::vector<double> values) {
    merge_ = HostArray::fill(tensor.type(), values, true);
    return *this;
  }
  Execution& bind(std::int64_t value) {
    statics_.push_back(value);
    return *this;
  }

  std::vector<double> operator()(const Program& program, const Tensor& result) const {
    const Lowered lowered = lower(program);
    EXPECT_TRUE(verify(lowered.loop).ok()) << verify(lowered.loop).to_string();
    const std::vector<double> plain = interpret_one(lowered, result);
    EXPECT_EQ(interpret_one(optimize(lowered), result), plain);
    return plain;
  }

 private:
  std::vector<double> interpret_one(const Lowered& lowered, const Tensor& result) const {
    std::vector<HostArray> arrays;
    for (std::size_t k = 0; k < lowered.tensors.size(); ++k) {
      const bool merged = lowered.loop.buffers[k].role == Role::merge;
      arrays.emplace_back(lowered.loop.buffers[k].type);
      if (merged && merge_) arrays.back() = *merge_;
      for (const auto& [tensor, array] : inputs_) {
        if (!merged && tensor == lowered.tensors[k])
          std::memcpy(arrays.back().data(), array.data(), array.num_bytes());
      }
    }
    interpret(lowered.loop, arrays, statics_);
    std::vector<double> values;
    const BufferId id = TensorBuffers(lowered)[result];
    for (std::int64_t k = 0; k < arrays[id].num_elements(); ++k) values.push_back(arrays[id].at(k));
    return values;
  }

  std::vector<std::pair<Tensor, HostArray>> inputs_;
  std::optional<HostArray> merge_;
  std::vector<std::int64_t> statics_;
};

// J2: an index missing on the left is reduced; the target keeps what it held
TEST(LowerTest, AccumulationKeepsTheTarget) {
  const Tensor a("a", f32, {2, 3}), r("r", f32, {2});
  Index i, k;
  Program p("rows");
  p << (r(i) += a(i, k));
  EXPECT_THAT(Execution().set(a, {1, 2, 3, 4, 5, 6}).set(r, {10, 20})(p, r), ElementsAre(16, 35));
}

// J2: every reduction starts from its neutral element
TEST(LowerTest, ReductionsStartNeutral) {
  const Tensor a("a", i32, {2, 3}), r("r", i32, {2});
  Index i, k;
  const auto reduced = [&](const Reduction& reduction) {
    Program p("rows");
    p << (r(i) = reduction);
    return Execution().set(a, {1, -2, 3, 0, 5, 6}).set(r, {77, 77})(p, r);
  };
  EXPECT_THAT(reduced(sum(a(i, k))), ElementsAre(2, 11));
  EXPECT_THAT(reduced(product(a(i, k))), ElementsAre(-6, 0));
  EXPECT_THAT(reduced(maximum(a(i, k))), ElementsAre(3, 6));
  EXPECT_THAT(reduced(minimum(a(i, k))), ElementsAre(-2, 0));
  EXPECT_THAT(reduced(all(a(i, k))), ElementsAre(1, 0));
  EXPECT_THAT(reduced(any(a(i, k) < 0)), ElementsAre(1, 0));
}

// J2: sums over nothing are neutral, statements over nothing do nothing (D3)
TEST(LowerTest, EmptySpaces) {
  const Tensor none("none", f32, {0, 2}), r("r", f32, {2}), s("s", f32, {2});
  Index i, k;
  Program p("nothing");
  p << (r(i) = sum(none(k, i))) << (s(i) += none(k, i)) << (none(k, i) = 1.0);
  EXPECT_THAT(Execution().set(r, {7, 7})(p, r), ElementsAre(0, 0));
  EXPECT_THAT(Execution().set(s, {7, 7})(p, s), ElementsAre(7, 7));
}

// J2: statements over their own target run in the order of the loops, as documented
TEST(LowerTest, InPlaceStatementsSeeEarlierIterations) {
  const Tensor a("a", f32, {4});
  Index i(3);
  Program shift("shift"), smear("smear");
  shift << (a(i) = a(i + 1));
  EXPECT_THAT(Execution().set(a, {1, 2, 3, 4})(shift, a), ElementsAre(2, 3, 4, 4));
  smear << (a(i + 1) = a(i));
  EXPECT_THAT(Execution().set(a, {1, 2, 3, 4})(smear, a), ElementsAre(1, 1, 1, 1));
}

// J2: loops run in row-major order, as documented: the left side's indices outermost, in order of
// appearance, then the others in theirs
TEST(LowerTest, LoopsRunInTheDocumentedOrder) {
  const Tensor x("x", f32, {2, 2}), one("one", f32, {2}), w("w", f32, {3}), r("r", f32, {});
  Index i, j;
  Program rows("rows"), columns("columns");
  rows << (w(i + j) = x(i, j));  // the last one stays
  EXPECT_THAT(Execution().set(x, {1, 2, 3, 4})(rows, w), ElementsAre(1, 3, 4));
  columns << (w(j + i) = x(i, j));
  EXPECT_THAT(Execution().set(x, {1, 2, 3, 4})(columns, w), ElementsAre(1, 2, 4));
  Program by_rows("by_rows"), by_columns("by_columns");
  by_rows << (r() += r() + x(i, j));  // 2 r + x, term by term
  EXPECT_THAT(Execution().set(x, {1, 2, 3, 4})(by_rows, r), ElementsAre(26));
  by_columns << (r() += r() + one(j) * x(i, j));
  EXPECT_THAT(Execution().set(x, {1, 2, 3, 4}).set(one, {1, 1})(by_columns, r), ElementsAre(28));
}

// J2: `= sum` that reads its target sees the neutral element, unless it is a plain assignment
TEST(LowerTest, ReductionOverItsOwnTarget) {
  const Tensor a("a", f32, {3}), r("r", f32, {});
  Index k;
  Program p("own");
  p << (r() = sum(a(k) + r()));
  EXPECT_THAT(Execution().set(a, {1, 2, 3}).set(r, {100})(p, r), ElementsAre(1 + 3 + 7));
  Program q("plain");
  q << (a(k) = sum(a(k) + 1));
  EXPECT_THAT(Execution().set(a, {1, 2, 3})(q, a), ElementsAre(2, 3, 4));
}

// J2: where the subscripts tell the left side's indices, as documented, `= sum` is an assignment
TEST(LowerTest, ReductionsOfOneTermAssign) {
  const auto run = [](const Dims& dims, const auto& subscripts) {
    const Tensor a("a", i32, dims);
    Index k("k", 1);
    Program p("one");
    const Access at = a.at(subscripts);
    p << (at = sum(at + 1 + 0 * embed(k)));
    const auto size = static_cast<std::size_t>(a.num_elements());
    return Execution().set(a, std::vector<double>(size, 5))(p, a);
  };
  using Subscripts = std::vector<Subscript>;
  Index i("i", 2), j("j", 3), one("one", 1);
  StaticIndex s("s", 1);
  EXPECT_THAT(run({2, 4}, Subscripts{i, i + Subscript(j)}), ElementsAre(6, 6, 6, 5, 5, 6, 6, 6));
  EXPECT_THAT(run({2, 4}, Subscripts{i, 1 - Subscript(i) + j}),
              ElementsAre(5, 6, 6, 6, 6, 6, 6, 5));
  EXPECT_THAT(run({8}, Subscripts{4 * Subscript(i) + j}), ElementsAre(6, 6, 6, 5, 6, 6, 6, 5));
  EXPECT_THAT(run({6}, Subscripts{5 - 3 * Subscript(i) - j}), ElementsAre(6, 6, 6, 6, 6, 6));
  EXPECT_THAT(run({2}, Subscripts{i + Subscript(one)}), ElementsAre(6, 6));
  EXPECT_THAT(run({3, 2}, Subscripts{j, 1}), ElementsAre(5, 6, 5, 6, 5, 6));
  // Two terms meet in one element: it starts from 0.
  EXPECT_THAT(run({4}, Subscripts{i + Subscript(j)}), ElementsAre(1, 3, 3, 1));
  EXPECT_THAT(run({5}, Subscripts{2 * Subscript(i) + j}), ElementsAre(1, 1, 3, 1, 1));
}

// J2: several iterations may meet in one element
TEST(LowerTest, ScatteredAccumulation) {
  const Tensor a("a", f32, {2, 3}), r("r", f32, {4});
  Index i, k;
  Program add("add"), set("set");
  add << (r(i + k) += a(i, k));
  set << (r(i + k) = sum(a(i, k)));
  EXPECT_THAT(Execution().set(a, {1, 2, 3, 4, 5, 6}).set(r, {1, 1, 1, 1})(add, r),
              ElementsAre(2, 7, 9, 7));
  EXPECT_THAT(Execution().set(a, {1, 2, 3, 4, 5, 6}).set(r, {1, 1, 1, 1})(set, r),
              ElementsAre(1, 6, 8, 6));
}

// J1: f16 reductions accumulate in f32 and round once
TEST(LowerTest, HalfPrecisionSumsRoundOnce) {
  const Tensor a("a", f16, {3}), r("r", f16, {});
  Index k;
  Program p("half");
  p << (r() = sum(a(k)));
  // 2048 + 1 is no f16; rounding at each step would lose both ones.
  EXPECT_THAT(Execution().set(a, {2048, 1, 1})(p, r), ElementsAre(2050));
  // Once for each point of the left side, where several of them meet in one element.
  const Tensor b("b", f16, {2, 1, 3}), y("y", f16, {2});
  Index i, j;
  Program met("met"), kept("kept");
  met << (y(i + j) = sum(b(i, j, k)));
  kept << (y(i + j) += b(i, j, k));
  const std::vector<double> values{2048, 1, 1, 1, 1, 2048};
  EXPECT_THAT(Execution().set(b, values)(met, y), ElementsAre(2050, 2050));
  EXPECT_THAT(Execution().set(b, values).set(y, {0, 0})(kept, y), ElementsAre(2050, 2050));
}

// J1: values are converted to the target's type as they are stored
TEST(LowerTest, StoresConvert) {
  const Tensor a("a", f32, {3}), r("r", u8, {3});
  Index i;
  Program p("convert");
  p << (r(i) = a(i));
  EXPECT_THAT(Execution().set(a, {-3, 2.9, 1e9})(p, r), ElementsAre(0, 2, 255));
}

// J2, J6: slices by static indices
TEST(LowerTest, StaticSlices) {
  const Tensor a("a", f32, {3, 2}), r("r", f32, {2});
  const StaticIndex row("row", 3);
  Index j;
  Program p("slice");
  p << (r(j) = a(row, j) + embed(row));
  EXPECT_THAT(Execution().set(a, {1, 2, 3, 4, 5, 6}).bind(1)(p, r), ElementsAre(4, 5));
}

// J6: bounds are found one static index at a time, so those that share a subscript need ranges
TEST(LowerTest, StaticIndicesThatShareASubscriptNeedRanges) {
  const Tensor a("a", f32, {9}), r("r", f32, {});
  const StaticIndex first("first", 5), second("second");
  Program p("two");
  p << (r() = a(first + second));
  try {
    static_cast<void>(lower(p));
    FAIL() << "accepted";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument);
    EXPECT_THAT(e.what(), AllOf(HasSubstr("'second'"), HasSubstr("'a'"), HasSubstr("range")));
  }
}

// J2, O30: merge reads come from the one merge buffer, beside the tensor itself
TEST(LowerTest, MergeReadsHaveTheirOwnBuffer) {
  const Tensor g("g", f32, {2});
  Index i;
  Program p("merge");
  p << (g(i) += merge(g)(i) * merge(g)(1));
  EXPECT_THAT(Execution().set(g, {1, 2}).set_merge(g, {10, 3})(p, g), ElementsAre(31, 11));
  const Lowered lowered = lower(p);
  EXPECT_EQ(lowered.loop.buffers.size(), 2u);
  EXPECT_EQ(make_signature(lowered).merge, 1u);
}

// J4: a whole constant zero is one zero statement; negative zero is not zero
TEST(LowerTest, ZeroFills) {
  const Tensor a("a", f32, {2, 1, 3});
  Index i, j, k;
  const auto text = [](const Statement& s) {
    Program p("fill");
    p << s;
    return print(lower(p).loop);
  };
  EXPECT_THAT(text(a(i, j, k) = 0.0), HasSubstr("zero t0"));
  EXPECT_THAT(text(a(i, 0, k) = 0), HasSubstr("zero t0"));
  EXPECT_THAT(text(a(i, j, k) = -0.0), Not(HasSubstr("zero")));
  EXPECT_THAT(text(a(0, j, k) = 0), Not(HasSubstr("zero")));
}

// J4: axes of one element are not iterated
TEST(LowerTest, SizeOneAxesAreFixed) {
  const Tensor a("a", f32, {1, 5, 1}), r("r", f32, {5, 1});
  Index i, j, k;
  Program p("ones");
  p << (r(j, k) = sum(a(i, j, k)));
  const std::string text = print(lower(p).loop);
  EXPECT_THAT(text, AllOf(HasSubstr("for i0 in 0..5"), Not(HasSubstr("i1"))));
  EXPECT_THAT(Execution().set(a, {1, 2, 3, 4, 5})(p, r), ElementsAre(1, 2, 3, 4, 5));
}

// J5: parts that an expression shares are computed once
TEST(LowerTest, SharedPartsBecomeLocals) {
  const Tensor a("a", u32, {2}), r("r", u32, {2});
  Index i;
  Expr e = a(i);
  for (int level = 0; level < 300; ++level) e = e * e + 1;
  Program p("shared");
  p << (r(i) = e);
  const Lowered lowered = lower(p);
  std::size_t statements = 0;
  walk(lowered.loop.body, [&](const Stmt&) { ++statements; });
  EXPECT_LT(statements, 1000u);
  std::uint32_t expected = 3;
  for (int level = 0; level < 300; ++level) expected = expected * expected + 1;
  EXPECT_THAT(Execution().set(a, {3, 3})(p, r), ElementsAre(expected, expected));
}

// J5: expressions as deep as descriptions allow pass through every stage
TEST(LowerTest, DeepExpressionsPass) {
  const Tensor a("a", f16, {2}), r("r", f16, {2});
  Index i;
  Expr e = a(i);
  for (int level = 0; level < 490; ++level) e = cast(-e, f16);
  Program p("deep");
  p << (r(i) = e);
  EXPECT_THAT(Execution().set(a, {1, 2})(p, r), ElementsAre(1, 2));
}

}  // namespace
}  // namespace heddle::jit::testing
