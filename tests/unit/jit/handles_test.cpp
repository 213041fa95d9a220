// Handles that were moved from, numbers that are no dtype, and numbers of all C++ types.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstddef>
#include <limits>
#include <type_traits>
#include <utility>

#include "heddle/code.hpp"
#include "heddle/host_array.hpp"
#include "heddle/program.hpp"
#include "jit/code/code.hpp"
#include "jit/describe/expr.hpp"
#include "jit/system/inside.hpp"
#include "jit/toolchain/compiler.hpp"
#include "tests/support/failure.hpp"

namespace heddle {
namespace {

using testing::AllOf;
using testing::HasSubstr;

constexpr auto invalid = ErrorCode::invalid_argument;

std::string refusal(const std::function<void()>& call) {
  const Status status = failure(call);
  EXPECT_EQ(status.code(), invalid) << status.to_string();
  return std::string(status.message());
}

/// What `handle` still is after it was moved from.
template <class T>
const T& moved_from(T& handle) {
  const T taken = std::move(handle);
  return handle;
}

// J2: what describes is never empty: moving copies
TEST(HandlesTest, DescriptionsSurviveBeingMovedFrom) {
  Index i("i", 4);
  EXPECT_EQ(moved_from(i).label(), "i");
  EXPECT_EQ(i.extent(), 4);
  StaticIndex step("step", 3);
  EXPECT_EQ(moved_from(step).label(), "step");
  EXPECT_TRUE(step == step);
  Tensor a("a", f32, {4});
  EXPECT_EQ(moved_from(a).label(), "a");
  EXPECT_EQ(a.to_string(), Tensor(a).to_string());
  Subscript s = 2 * i + 1;
  static_cast<void>(moved_from(s));
  Expr e = a(i) + 1;
  EXPECT_EQ(Inside::of(moved_from(e))->dtype, f32);
  EXPECT_EQ(Inside::of(e * e)->dtype, f32);
  Access read = a(i);
  EXPECT_EQ(moved_from(read).tensor(), a);
  Statement statement = (a(i) = e);
  static_cast<void>(moved_from(statement));
  Program p("p");
  p << statement;
  EXPECT_EQ(p.to_string(), "program p\n  a(i) = (a(i) + 1)\n");
  HostArray array = HostArray::of<float>({2}, std::vector<float>{1, 2});
  EXPECT_EQ(moved_from(array).at(1), 2.0);
  ArrayType type{f32, {2, 3}};
  EXPECT_EQ(moved_from(type).to_string(), "f32[]") << "a type of its own";
}

// J2: a program is a value: one that was moved from is empty, and may be filled anew
TEST(HandlesTest, AProgramThatWasMovedFromIsEmpty) {
  const Tensor g("g", f32, {4}), h("h", f32, {4});
  Index i;
  Program p("p");
  p << (g(i) = merge(g)(i));
  EXPECT_TRUE(moved_from(p).empty());
  EXPECT_EQ(p.merge_tensor(), std::nullopt);
  p << (h(i) = merge(h)(i));
  EXPECT_TRUE(p.merge_tensor() == h);
}

// J7
TEST(HandlesTest, CodeSurvivesBeingMovedFrom) {
  const Tensor a("a", f32, {4});
  Index i;
  Program p("p");
  p << (a(i) = 1.0);
  Code code = jit::finish(jit::draft_program(p, {}, jit::make_null_compiler()));
  EXPECT_EQ(moved_from(code).name(), "p");
  EXPECT_FALSE(code.loop_text().empty());
}

// J1, bad input: numbers that are no dtype are refused by name, wherever they are given
TEST(HandlesTest, NumbersThatAreNoDTypeAreRefused) {
  const DType none = static_cast<DType>(77);
  EXPECT_EQ(name(none), "unknown");
  EXPECT_EQ(size_of(none), 0u);
  EXPECT_FALSE(is_floating(none) || is_integer(none) || is_storage_only(none));
  const ArrayType type{none, {2}};
  EXPECT_EQ(type.to_string(), "unknown[2]");
  EXPECT_EQ(type.num_bytes(), std::nullopt);
  EXPECT_THAT(refusal([&] { static_cast<void>(Tensor("t", none, {2})); }),
              AllOf(HasSubstr("tensor 't'"), HasSubstr("77"), HasSubstr("f32, f64")));
  const Tensor a("a", f32, {2});
  Index i;
  EXPECT_THAT(refusal([&] { static_cast<void>(cast(a(i), none)); }),
              AllOf(HasSubstr("cast"), HasSubstr("77")));
  double value = 0;
  for (const auto& make : std::vector<std::function<void()>>{
           [&] { static_cast<void>(HostArray(type)); },
           [&] { static_cast<void>(HostArray::borrow(type, &value)); },
           [&] { static_cast<void>(HostArray::fill(type, std::span<const double>(&value, 1))); },
           [&] { static_cast<void>(HostArray::range(type)); },
           [&] { static_cast<void>(HostArray::uniform(type, 1)); },
           [&] { static_cast<void>(HostArray::map_file(type, "/dev/null")); },
           [&] { static_cast<void>(render_array(type, &value)); }}) {
    EXPECT_THAT(refusal(make), AllOf(HasSubstr("host array"), HasSubstr("77")));
  }
}

// J2: shapes, subscripts and literals take integers of every type
TEST(NumbersTest, OfEveryIntegerTypeWork) {
  const std::size_t n = 4;
  const unsigned m = 3;
  const short k = 2;
  const Tensor a("a", f32, {n, m}), b("b", f32, {n, 3}), c("c", u8, {k, n, m, 5LL});
  EXPECT_EQ(a.type(), b.type());
  EXPECT_EQ(c.dims(), (Dims{2, 4, 3, 5}));
  EXPECT_EQ(Tensor("shaped", f32, std::vector<std::size_t>{n, m}).type(), a.type());
  EXPECT_EQ((ArrayType{f32, {n, m}}), a.type());
  EXPECT_EQ(HostArray::of<float>({n, k}, std::vector<float>(8)).type(), (ArrayType{f32, {4, 2}}));
  Index i(1u), j(m), l{n};
  EXPECT_EQ(j.extent(), 3);
  EXPECT_EQ(Index("labelled", n).extent(), 4);
  EXPECT_EQ(StaticIndex("step", n).range(), 4);
  const std::uint8_t one = 1;
  Program p("p");
  p << (a(l, j) = b(l, j) * n + m - k) << (a(one, j) = b(n - 1, j) / one)
    << (a(i + n - 1, j) = b(one * i + 0u, j * 1u) + 2.5f);
  EXPECT_THAT(p.to_string(), HasSubstr("a(i0, i1) = (((b(i0, i1) * 4) + 3) - 2)\n"));
}

// J2: what does not fit is refused, and what it is for is named
TEST(NumbersTest, ThatDoNotFitAreRefused) {
  const std::size_t zero = 0;
  EXPECT_THAT(refusal([&] { static_cast<void>(Tensor("t", f32, {3, zero - 1})); }),
              AllOf(HasSubstr("'t'"), HasSubstr("axis 1"), HasSubstr("extent -1")));
  EXPECT_THAT(refusal([&] { static_cast<void>(Index(zero - 1)); }), HasSubstr("extent -1"));
  EXPECT_THAT(refusal([&] { static_cast<void>(HostArray({f32, {zero - 1}})); }), HasSubstr("-1"));
  const Tensor a("a", f32, {4, 4}), big("big", u64, {4}), flag("flag", bool_, {4});
  Index i("i");
  EXPECT_THAT(refusal([&] { static_cast<void>(Expr(a(i, zero - 1))); }),
              AllOf(HasSubstr("axis 1 of 'a' f32[4,4]"), HasSubstr("18446744073709551615"),
                    HasSubstr("64 bits")));
  EXPECT_THAT(refusal([&] { static_cast<void>(Expr(a((zero - 1) * i, 0))); }),
              AllOf(HasSubstr("axis 0 of 'a'"), HasSubstr("18446744073709551615")));
  constexpr std::uint64_t most = std::numeric_limits<std::uint64_t>::max();
  EXPECT_EQ(Inside::of(big(i) + most)->args[1]->scalar.i, -1) << "all bits are set";
  EXPECT_THAT(refusal([&] { static_cast<void>(cast(a(i, 0), i64) + most); }),
              AllOf(HasSubstr("18446744073709551615"), HasSubstr("i64"), HasSubstr("'add'"),
                    HasSubstr("a(i, 0)")));
  EXPECT_THAT(refusal([&] { static_cast<void>(flag(i) + 5'000'000'000); }),
              AllOf(HasSubstr("5000000000"), HasSubstr("i32"), HasSubstr("flag(i)")));
}

// J2: a coefficient beyond 64 bits is told with tensor, axis and subscript
TEST(NumbersTest, CoefficientsBeyond64BitsNameTheirPlace) {
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  const Tensor x("x", f32, {4, 8}), y("y", f32, {4});
  Index i("i"), k("k");
  const Subscript twice = most * i + 2 * Subscript(i);
  for (const auto& use :
       std::vector<std::function<void()>>{[&] { static_cast<void>(Expr(x(k, twice))); },
                                          [&] { static_cast<void>(x(k, twice + 1) = 1.0); },
                                          [&] { static_cast<void>(merge(x)(k, twice)); }}) {
    EXPECT_THAT(refusal(use), AllOf(HasSubstr("axis 1 of 'x' f32[4,8]"),
                                    HasSubstr("9223372036854775807*i + 1*(2*i)")));
  }
  EXPECT_THAT(refusal([&] { static_cast<void>(x(2 * (most * Subscript(i)), k) = 1.0); }),
              AllOf(HasSubstr("axis 0 of 'x'"), HasSubstr("2*(9223372036854775807*i)")));
  EXPECT_THAT(refusal([&] { static_cast<void>(embed(twice)); }), HasSubstr("embed"));
}

static_assert(!std::is_convertible_v<char, Expr>, "'a' is a text's, not a number");
static_assert(!std::is_convertible_v<bool, Subscript> && !std::is_convertible_v<double, Subscript>);

}  // namespace
}  // namespace heddle
