// Index notation: extents, literals, statements, programs, and every refusal of bad descriptions.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "heddle/program.hpp"
#include "heddle/status.hpp"
#include "jit/code/code.hpp"
#include "jit/describe/expr.hpp"
#include "jit/describe/program_text.hpp"
#include "jit/system/inside.hpp"
#include "jit/toolchain/compiler.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

template <class F>
std::string refusal(F&& f) {
  try {
    f();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << e.what();
    return e.what();
  }
  return {};
}

std::vector<std::int64_t> extents(const Statement& statement) {
  std::vector<std::int64_t> result;
  for (const auto& axis : jit::iteration_space(*Inside::of(statement)))
    result.push_back(axis.extent);
  return result;
}

// J2
TEST(NotationTest, InfersExtentsLeftIndicesFirst) {
  const Tensor a("a", f32, {4, 8}), b("b", f32, {8, 2}), c("c", f32, {4, 2});
  Index i, j, k;
  const Statement product = (c(i, j) += a(i, k) * b(k, j));
  EXPECT_EQ(extents(product), (std::vector<std::int64_t>{4, 2, 8}));
  EXPECT_TRUE(jit::iteration_space(*Inside::of(product))[2].reduced);
  EXPECT_FALSE(jit::iteration_space(*Inside::of(product))[1].reduced);
}

// J2: affine subscripts take their extents from plain ones or declarations, and are range-checked
TEST(NotationTest, AffineSubscriptsAreChecked) {
  const Tensor x("x", f32, {10}), y("y", f32, {4}), w("w", f32, {3});
  Index i, k;
  Program conv("conv");
  conv << (y(i) += x(2 * i + k) * w(k));
  EXPECT_EQ(conv.statements().size(), 1u);
  const Tensor longer("longer", f32, {5});
  EXPECT_THAT(
      refusal([&] { conv << (longer(i) += x(2 * i + k) * w(k)); }),
      AllOf(HasSubstr("'x'"), HasSubstr("axis 0"), HasSubstr("0 to 10"), HasSubstr("0 to 9")));
  EXPECT_THAT(refusal([&] { conv << (y(i) = x(i - 1)); }), HasSubstr("-1"));
  EXPECT_THAT(refusal([&] { conv << (y(0) += x(2 * k)); }), HasSubstr("Index(extent)"));
  Index five(5);
  EXPECT_EQ(refusal([&] { conv << (y(0) += x(2 * five)); }), "");
  const StaticIndex row("row", 12);
  EXPECT_THAT(refusal([&] { conv << (y(0) = x(row)); }),
              AllOf(HasSubstr("axis 0 of 'x'"), HasSubstr("0 to 11"),
                    HasSubstr("static index 'row' has range 12")));
  EXPECT_EQ(conv.statements().size(), 2u);
}

// J2, bad input: an extent clash names tensors, axes and sizes
TEST(NotationTest, ExtentClashNamesBothSides) {
  const Tensor a("a", f32, {64, 128}), b("b", f32, {100, 32}), c("c", f32, {64, 32});
  Index i, j, k("k");
  Program mm("mm");
  EXPECT_THAT(refusal([&] { mm << (c(i, j) += a(i, k) * b(k, j)); }),
              AllOf(HasSubstr("'k'"), HasSubstr("128"), HasSubstr("axis 1 of 'a'"),
                    HasSubstr("100"), HasSubstr("axis 0 of 'b'")));
  EXPECT_TRUE(mm.empty());
}

// J2: a reduced index needs a reduction
TEST(NotationTest, PlainAssignmentRefusesAMissingIndex) {
  const Tensor a("a", f32, {4, 8}), r("r", f32, {4});
  Index i, k("k");
  Program p("rows");
  EXPECT_THAT(refusal([&] { p << (r(i) = a(i, k)); }),
              AllOf(HasSubstr("'k'"), HasSubstr("sum(...)")));
  EXPECT_EQ(refusal([&] { p << (r(i) = sum(a(i, k))) << (r(i) = maximum(a(i, k))); }), "");
  EXPECT_TRUE(Inside::of(p.statements()[0])->initialize_neutral);
  EXPECT_EQ(Inside::of(p.statements()[1])->accumulate, jit::Op::max);
}

// J2: rank
TEST(NotationTest, RankMismatchNamesTheTensor) {
  const Tensor a("a", f32, {4, 8}), r("r", f32, {4});
  Index i;
  EXPECT_THAT(refusal([&] { static_cast<void>(Expr(a(i))); }),
              AllOf(HasSubstr("'a'"), HasSubstr("2 subscripts")));
  EXPECT_THAT(refusal([&] { static_cast<void>(r(i, i) = 1.0); }), HasSubstr("1 subscripts"));
}

// J1: a literal that does not fit the tensor that takes it is refused, with what would fit
TEST(NotationTest, LiteralsMustFitTheirTarget) {
  const Tensor small("small", u8, {4}), n("n", i32, {4}), u("u", u64, {4}), f("f", f32, {4}),
      truth("truth", bool_, {4});
  Index i;
  EXPECT_THAT(refusal([&] { static_cast<void>(small(i) = 300); }),
              AllOf(HasSubstr("literal 300"), HasSubstr("'small' (u8, 0 to 255)"),
                    HasSubstr("small(i0) = 300"), HasSubstr("cast(300, u8)")));
  EXPECT_THAT(refusal([&] { static_cast<void>(small(i) += 300); }), HasSubstr("small(i0) += 300"));
  EXPECT_THAT(refusal([&] { static_cast<void>(small(i) *= -1); }), HasSubstr("literal -1"));
  EXPECT_THAT(refusal([&] { static_cast<void>(small(i) = sum(256)); }), HasSubstr("literal 256"));
  EXPECT_THAT(refusal([&] { static_cast<void>(n(i) = std::int64_t{1} << 40); }),
              HasSubstr("'n' (i32, -2147483648 to 2147483647)"));
  EXPECT_THAT(refusal([&] { static_cast<void>(u(i) = -1); }),
              HasSubstr("'u' (u64, 0 to 18446744073709551615)"));
  EXPECT_EQ(Inside::of(small(i) = 255)->value->scalar.i, 255);
  EXPECT_EQ(Inside::of(u(i) = ~std::uint64_t{0})->value->scalar.i, -1);
  EXPECT_EQ(Inside::of(small(i) = cast(300, u8))->value->scalar.i, 44);
  EXPECT_EQ(Inside::of(small(i) = 300.7)->value->scalar.i, 255)
      << "fractions saturate, as in cast()";
  EXPECT_EQ(Inside::of(truth(i) = 300)->value->scalar.i, 1);
  EXPECT_EQ(Inside::of(f(i) = std::int64_t{1} << 40)->value->scalar.f, 0x1p40);
}

// J1: literals take the type of what they meet
TEST(LiteralTest, AdaptToTheOtherOperand) {
  const Tensor h("h", f16, {2}), n("n", i16, {2}), d("d", f64, {2}), flag("flag", bool_, {2});
  Index i;
  EXPECT_EQ(Inside::of(h(i) * 0.5)->dtype, f32);  // computed in f32, not f64
  EXPECT_EQ(Inside::of(d(i) * 0.5)->dtype, f64);
  EXPECT_EQ(Inside::of(n(i) + 1)->dtype, i16);
  EXPECT_EQ(Inside::of(n(i) * 0.5)->dtype, f32);
  EXPECT_EQ(Inside::of(flag(i) + 1)->dtype, i32);
  EXPECT_EQ(Inside::of(where(flag(i), n(i), 0))->dtype, i16);
  EXPECT_EQ(Inside::of(Expr(2) * 3)->dtype, i64);
  EXPECT_TRUE(Inside::of(Expr(2) * 3)->weak);
  EXPECT_THAT(refusal([&] { static_cast<void>(n(i) + 100'000); }),
              AllOf(HasSubstr("100000"), HasSubstr("i16"), HasSubstr("n(i0)"), HasSubstr("cast")));
}

// Bad input: unknown op/dtype mix; each operand is told with its type
TEST(LiteralTest, NoCommonTypeIsRefusedByName) {
  const Tensor u("u", u64, {2}), n("n", i32, {2}), m("m", i8, {2}), x("x", f32, {2});
  Index i;
  EXPECT_THAT(refusal([&] { static_cast<void>(u(i) + n(i)); }),
              AllOf(HasSubstr("'add'"), HasSubstr("u(i0) (u64) and n(i0) (i32)"),
                    HasSubstr("cast(x, dtype)")));
  EXPECT_THAT(refusal([&] { static_cast<void>(where(x(i) < 1, 2 * u(i), n(i))); }),
              AllOf(HasSubstr("'where'"), HasSubstr("(2 * u(i0)) (u64) and n(i0) (i32)")));
  EXPECT_THAT(refusal([&] { static_cast<void>(threefry(x(i), u(i))); }),
              AllOf(HasSubstr("'threefry'"), HasSubstr("x(i0) (f32)"), HasSubstr("integers")));
  EXPECT_THAT(refusal([&] { static_cast<void>(u(i) += n(i) + m(i)); }),
              AllOf(HasSubstr("tensor 'u' (u64)"), HasSubstr("n i32[2], m i8[2]"),
                    HasSubstr("u(i0) += (n(i0) + m(i0))"), HasSubstr("cast(x, dtype)")));
  EXPECT_EQ(Inside::of(u(i) += 1)->value->dtype, u64) << "literals take the type of the target";
  EXPECT_EQ(Inside::of(u(i) + cast(n(i), u64))->dtype, u64);
}

// J1, J3: a fraction that meets no type is f64, an integer f32: the text tells them apart
TEST(LiteralTest, ThatMeetNoTypeArePrintedWithTheirKind) {
  const Tensor r("r", f64, {4});
  Index i;
  const auto text = [](const Expr& value) { return jit::print_expr(*Inside::of(value)); };
  EXPECT_EQ(text(exp(Expr(1))), "exp(1)");
  EXPECT_EQ(text(exp(Expr(1.0))), "exp(1.0)");
  EXPECT_EQ(text(exp(Expr(-2.0))), "exp(-2.0)");
  EXPECT_EQ(text(exp(Expr(0.5)) * 1e300), "(exp(0.5) * 1e+300)");
  EXPECT_EQ(text(r(i) * 2.0), "(r(i0) * 2)");
}

// J5, O30: one merge tensor per program, both named
TEST(ProgramTest, SecondMergeTensorIsRefusedNamingBoth) {
  const Tensor g("g", f32, {4}), h("h", f32, {4});
  Index i;
  Program p("add");
  p << (g(i) += merge(g)(i));
  EXPECT_TRUE(p.merge_tensor() == g);
  EXPECT_THAT(refusal([&] { p << (g(i) += merge(h)(i)); }),
              AllOf(HasSubstr("merge('g')"), HasSubstr("merge('h')")));
  EXPECT_THAT(refusal([&] { p << (h(i) = merge(g)(i) + merge(h)(i)); }), HasSubstr("two programs"));
  Program other("other");
  other << (h(i) = merge(h)(i));
  EXPECT_THAT(refusal([&] { p << other; }), HasSubstr("merge('h')"));
  EXPECT_EQ(p.statements().size(), 1u);
}

// J2: recurrent tensors, order of appearance
TEST(ProgramTest, KnowsItsTensorsAndWhatItReadsFirst) {
  const Tensor a("a", f32, {4}), t("t", f32, {4}), o("o", f32, {4});
  Index i;
  Program p("p");
  p << (t(i) = a(i) * 2.0) << (o(i) += t(i));
  EXPECT_EQ(p.tensors(), (std::vector<Tensor>{a, t, o}));
  EXPECT_EQ(p.reads_before_writing(), (std::vector<Tensor>{a, o}));
}

// J2: statements of one program can be appended to another, its comments too
TEST(ProgramTest, StatementsOfAnotherAreAppended) {
  const Tensor a("a", f32, {4}), b("b", f32, {4});
  Index i;
  Program p("p");
  p.comment("scale");
  p << (b(i) = a(i) * 2.0);
  Program q("p");
  for (const Statement& statement : p.statements()) q << statement;
  EXPECT_EQ(q.to_string(), p.to_string());
}

// Seam: substitute keeps types and reaches every use
TEST(ProgramTest, SubstitutesTensorsOfTheSameType) {
  const Tensor a("a", f32, {4}), b("b", f32, {4}), c("c", f32, {4}), wide("wide", f64, {4});
  Index i;
  Program p("p");
  p.comment("scale");
  p << (b(i) = a(i) * merge(a)(i));
  const Program q = p.substitute({{a, c}});
  EXPECT_EQ(q.tensors(), (std::vector<Tensor>{c, b}));
  EXPECT_TRUE(q.merge_tensor() == c);
  EXPECT_EQ(p.tensors(), (std::vector<Tensor>{a, b}));
  EXPECT_THAT(refusal([&] { static_cast<void>(p.substitute({{a, wide}})); }),
              AllOf(HasSubstr("'wide'"), HasSubstr("'a'")));
}

// Bad input: none of two replacements of one tensor is silently left out
TEST(ProgramTest, ReplacingATensorTwiceIsRefused) {
  const Tensor a("a", f32, {4}), b("b", f32, {4}), c("c", f32, {4}), d("d", f32, {4});
  Index i;
  Program p("p");
  p << (b(i) = a(i));
  EXPECT_THAT(refusal([&] { static_cast<void>(p.substitute({{a, c}, {b, c}, {a, d}})); }),
              AllOf(HasSubstr("'a'"), HasSubstr("'c'"), HasSubstr("'d'"), HasSubstr("once")));
  EXPECT_EQ(p.substitute({{a, c}, {b, d}}).tensors(), (std::vector<Tensor>{c, d}));
}

// Bad input: depth is bounded, so that no walk overflows the stack
TEST(ProgramTest, DeepExpressionsAreRefusedNotCrashed) {
  const Tensor a("a", f32, {4});
  Index i;
  Expr e = a(i);
  const std::string text = refusal([&] {
    for (int n = 0; n < 100'000; ++n) e = e + 1.0;
  });
  EXPECT_THAT(text, AllOf(HasSubstr("1000"), HasSubstr("tensor")));
}

// J6: a static index with a range that cannot fit is refused when described
TEST(ProgramTest, StaticRangeIsCheckedAgainstTheAxis) {
  const Tensor x("x", f32, {8, 4}), y("y", f32, {4});
  Index i;
  StaticIndex fits("fits", 8), over("over", 9), open("open");
  Program p("slice");
  EXPECT_EQ(refusal([&] { p << (y(i) = x(fits, i)) << (y(i) = x(open, i)); }), "");
  EXPECT_THAT(refusal([&] { p << (y(i) = x(over, i)); }),
              AllOf(HasSubstr("'x'"), HasSubstr("0 to 8")));
}

// D3: zero-sized and scalar tensors can be described
TEST(ProgramTest, ScalarsAndEmptyAxes) {
  const Tensor s("s", f32, {}), empty("empty", f32, {0, 3}), x("x", f32, {3});
  Index i, j;
  Program p("p");
  p << (s() = 2.0) << (s() += empty(i, j)) << (x(j) = s() * x(j));
  EXPECT_EQ(extents(p.statements()[1]), (std::vector<std::int64_t>{0, 3}));
}

// O22: names come from comments
TEST(ProgramTest, NamesFromComments) {
  Program p;
  EXPECT_EQ(jit::name_from_comments(p), "");
  p.comment("forward: layer 1!");
  EXPECT_EQ(jit::name_from_comments(p), "forward_layer_1");
  p.comment("forward: layer 2!");
  EXPECT_EQ(jit::name_from_comments(p), "forward_layer_1_then_2");
}

// J7, bad input: what computes nothing is refused by name, alone and in a batch
TEST(ProgramTest, WithoutStatementsIsRefused) {
  const auto compiler = jit::make_null_compiler();
  const Tensor a("a", f32, {4});
  Index i;
  Program full("full"), none("none"), notes("notes");
  full << (a(i) = 1.0);
  notes.comment("to be written");
  const auto compile = [&](const Program& p) {
    return refusal([&] { static_cast<void>(jit::draft_program(p, {}, compiler)); });
  };
  EXPECT_EQ(compile(full), "");
  EXPECT_THAT(compile(none), AllOf(HasSubstr("'none'"), HasSubstr("no statement")));
  EXPECT_THAT(compile(notes), AllOf(HasSubstr("'notes'"), HasSubstr("comments alone")));
  EXPECT_THAT(compile(Program()), HasSubstr("no name"));
  const std::vector<Program> batch{full, notes, none};
  BatchOptions options;
  const auto compile_batch = [&] {
    return refusal([&] { static_cast<void>(jit::draft_programs(batch, options, compiler)); });
  };
  EXPECT_THAT(compile_batch(), HasSubstr("'notes'"));
  options.occupancy = [](const std::string& name, std::size_t) { return name == "full"; };
  EXPECT_EQ(compile_batch(), "") << "what is left out is not looked at";
}

// Every description prints as it was written
TEST(ProgramTest, PrintsIndexNotation) {
  const Tensor a("a", f32, {4, 12}), c("c", f32, {4});
  Index i("i"), k("k", 4);
  StaticIndex step("step", 3);
  Program p("p");
  p.comment("note");
  p << (c(i) += a(i, 2 * k + 3 - step) * 0.5) << (c(i) = sum(relu(-a(i, k))))
    << (c(0) = max(c(1), 2));
  EXPECT_EQ(p.to_string(),
            "program p\n"
            "  # note\n"
            "  c(i) += (a(i, 2*k - step + 3) * 0.5)\n"
            "  c(i) = reduce.add(relu(neg(a(i, k))))\n"
            "  c(0) = max(c(1), 2)\n");
}

}  // namespace
}  // namespace heddle
