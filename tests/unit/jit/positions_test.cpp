// Computed positions in index notation: extents, text, substitution, and each refusal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heddle/program.hpp"
#include "heddle/status.hpp"
#include "jit/cache/program_key.hpp"
#include "jit/describe/expr.hpp"
#include "jit/describe/form.hpp"
#include "jit/describe/wishes.hpp"
#include "jit/system/inside.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

class PositionTest : public testing::Test {
 protected:
  template <class F>
  static std::string refusal(const F& make) {
    try {
      make();
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ErrorCode::invalid_argument) << e.what();
      return e.what();
    }
    return {};
  }
  static std::string refusal_of(const Statement& statement) {
    return refusal([&] { Program("p") << statement; });
  }

  const Tensor rows{"rows", i32, {5}}, x{"x", f32, {8, 4}}, y{"y", f32, {5, 4}};
  const Tensor none{"none", f32, {0}}, line{"line", f32, {5}};
  const Index i, j, k;
};

// J13: indices of a position belong to the side that it stands on, where it stands
TEST_F(PositionTest, IndicesBelongToTheirSide) {
  const auto space = [](const Statement& statement) {
    std::vector<std::pair<std::int64_t, bool>> axes;
    for (const auto& axis : jit::iteration_space(*Inside::of(statement)))
      axes.emplace_back(axis.extent, axis.reduced);
    return axes;
  };
  using Axis = std::pair<std::int64_t, bool>;
  EXPECT_THAT(space(y(i, k) = x(at(rows(i)), k)), ElementsAre(Axis(5, false), Axis(4, false)));
  EXPECT_THAT(space(x(at(rows(i)), k) += y(i, k)), ElementsAre(Axis(5, false), Axis(4, false)));
  EXPECT_THAT(space(line(j) += x(at(rows(i)), k)),
              ElementsAre(Axis(5, false), Axis(5, true), Axis(4, true)));
  EXPECT_THAT(refusal_of(line(0) = x(at(rows(i)), 0)), HasSubstr("missing on the left"));
  EXPECT_THAT(refusal_of(line(0) += x(at(embed(i)), 0)), HasSubstr("no plain subscript fixes it"));
}

// J13: of any integer type; a literal is one
TEST_F(PositionTest, PositionsAreIntegers) {
  for (const DType type : {u8, i8, u16, i16, i32, u32, i64, u64})
    EXPECT_EQ(refusal_of(line(i) = x(at(cast(rows(i), type)), 0)), "") << name(type);
  EXPECT_EQ(refusal_of(line(i) = x(at(3), 0)), "");
  EXPECT_THAT(refusal([&] { static_cast<void>(at(line(i))); }),
              AllOf(HasSubstr("at(line(i0)) is a position of f32"), HasSubstr("cast(x, i64)")));
  EXPECT_THAT(refusal([&] { static_cast<void>(at(rows(i) < 3)); }), HasSubstr("position of bool"));
  EXPECT_THAT(refusal([&] { static_cast<void>(at(1.5)); }), HasSubstr("position of f64"));
}

// J13: one position a subscript, plus indices and numbers
TEST_F(PositionTest, SubscriptsHaveOnePosition) {
  const Index three(3);
  EXPECT_EQ(refusal_of(line(three) = x(at(rows(0)) + three + 1, 0)), "");
  EXPECT_EQ(refusal_of(line(three) = x(2 * Subscript(three) + at(rows(0)), 0)), "");
  EXPECT_THAT(
      refusal([&] { static_cast<void>(2 * at(rows(i))); }),
      AllOf(HasSubstr("2 times the computed position at(rows(i0))"), HasSubstr("at(factor * e)")));
  EXPECT_THAT(refusal([&] { static_cast<void>(three - at(rows(i))); }), HasSubstr("-1 times"));
  EXPECT_THAT(refusal([&] { static_cast<void>(at(rows(i)) + at(rows(j))); }),
              AllOf(HasSubstr("adds two computed positions"), HasSubstr("at(a + b)")));
  EXPECT_THAT(refusal([&] { static_cast<void>(embed(at(rows(i)))); }),
              HasSubstr("embed(at(rows(i0))) takes indices"));
  const StaticIndex open("open");
  EXPECT_THAT(refusal_of(line(i) = x(at(rows(i)) + open, 0)),
              AllOf(HasSubstr("axis 0 of 'x'"), HasSubstr("StaticIndex(label, range)")));
  EXPECT_EQ(refusal_of(line(i) = x(at(rows(i)) + StaticIndex("step", 3), 0)), "");
}

// J13: a position is known before the statement writes anything
TEST_F(PositionTest, PositionsReadNoTarget) {
  const auto culprit = AllOf(HasSubstr("axis 0 of 'rows' i32[5] is subscripted by at(rows(i0))"),
                             HasSubstr("reads 'rows'"), HasSubstr("to another tensor first"));
  EXPECT_THAT(refusal_of(rows(at(rows(i))) += 1), culprit);
  EXPECT_THAT(refusal_of(rows(i) = rows(at(rows(i)))), culprit);
  EXPECT_THAT(refusal_of(rows(i) = cast(x(at(rows(i)), 0), i32)), HasSubstr("axis 0 of 'x'"));
  EXPECT_THAT(refusal_of(rows(i) = rows(at(cast(x(at(rows(i)), 0), i32)))),
              HasSubstr("reads 'rows'"));
  EXPECT_EQ(refusal_of(line(i) = line(at(rows(i)))), "") << "what is read there may be";
}

// J13: what is read somewhere must have somewhere to be read; writing nowhere is nothing
TEST_F(PositionTest, AxesNeedRoomToBeRead) {
  EXPECT_THAT(refusal_of(line(i) = none(at(rows(i)))),
              AllOf(HasSubstr("axis 0 of 'none' f32[0] is subscripted by at(rows(i0))"),
                    HasSubstr("1 elements are read together")));
  const Index nine(9);
  EXPECT_THAT(refusal_of(line(i) += x(at(rows(i)) + nine, 0)), HasSubstr("9 elements"));
  EXPECT_EQ(refusal_of(none(at(rows(i))) += line(i)), "");
  const Index no(0);
  EXPECT_EQ(refusal_of(line(i) += none(at(rows(i))) * cast(embed(no), f32)), "")
      << "a sum without terms reads nothing";
  EXPECT_EQ(refusal_of(none(no) = none(at(rows(no)))), "") << "never runs";
}

// J13: positions are printed as they are written, and count in the key
TEST_F(PositionTest, AreSaidInFull) {
  Program p("p");
  p << (x(at(rows(i)) + 2, k) += y(i, k) * x(at(3), at(rows(i) * 2)));
  EXPECT_EQ(p.to_string(),
            "program p\n  x(at(rows(i0)) + 2, i1) += (y(i0, i1) * x(at(3), "
            "at((rows(i0) * 2))))\n");
  EXPECT_THAT(p.tensors(), ElementsAre(rows, y, x));
  EXPECT_THAT(p.reads_before_writing(), ElementsAre(rows, y, x));
  const auto key = [](const Statement& statement) {
    Program one("p");
    one << statement;
    return jit::program_key(jit::form_of(one), jit::wishes_of(one), {});
  };
  EXPECT_EQ(key(line(i) = x(at(rows(i)), 0)), key(line(j) = x(at(rows(j)), 0)));
  EXPECT_NE(key(line(i) = x(at(rows(i)), 0)), key(line(i) = x(at(rows(i) + 1), 0)));
  EXPECT_NE(key(line(i) = x(at(rows(i)), 0)), key(line(i) = x(0, at(rows(i)))));
  EXPECT_NE(key(line(at(rows(i))) = y(i, 0)), key(line(i) = y(at(rows(i)), 0)));
}

// Seam: substitution reaches positions on both sides
TEST_F(PositionTest, AreSubstituted) {
  const Tensor other("other", i32, {5});
  Program p("p");
  p << (x(at(rows(i)), k) = y(i, k)) << (y(i, k) = x(at(rows(i)), k) * x(at(rows(i)), 0));
  const Program q = p.substitute({{rows, other}});
  EXPECT_THAT(q.to_string(), AllOf(HasSubstr("x(at(other(i0)), i1) = y(i0, i1)"),
                                   HasSubstr("(x(at(other(i0)), i1) * x(at(other(i0)), 0))")));
  EXPECT_THAT(p.tensors(), ElementsAre(rows, y, x));
}

// J2: positions nest as deep as operations
TEST_F(PositionTest, NestingIsBounded) {
  const Tensor chain("chain", i32, {5});
  Expr position = chain(i);
  EXPECT_THAT(refusal([&] {
                for (int level = 0; level < 1001; ++level) position = chain(at(position));
              }),
              HasSubstr("nests deeper than 1000"));
}

}  // namespace
}  // namespace heddle
