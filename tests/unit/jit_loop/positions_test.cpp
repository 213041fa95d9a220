// Computed positions: the statements that they become, what stages know of them and keep.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fmt/format.h>

#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "heddle/status.hpp"
#include "jit/loop/donation.hpp"
#include "jit/loop/position.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/lower/lower.hpp"
#include "jit/lower/passes.hpp"
#include "jit/lower/stop_checks.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/schedule/scheduling.hpp"
#include "jit/schedule/settled_positions.hpp"
#include "jit/vector/dependence.hpp"
#include "support/loop_interpreter.hpp"
#include "support/parsed.hpp"
#include "support/random_contraction.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string buffers =
    "buffer t0 input i32[5]\nbuffer t1 input f32[8,4]\nbuffer t2 inout f32[5,4]\n"
    "buffer t3 inout f32[8,4]\n";

Loop kernel(const std::string& body) { return parsed(buffers + "kernel {\n" + body + "}\n"); }

std::string refusal(const std::string& body) {
  try {
    static_cast<void>(kernel(body));
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::invalid_argument);
    return error.what();
  }
  return {};
}

std::string optimised(const Program& program) { return print(optimize(lower(program)).loop); }

Lowered of_loop(Loop loop) {
  Lowered lowered;
  for (const BufferDecl& decl : loop.buffers)
    lowered.tensors.emplace_back("t", decl.type.dtype, decl.type.dims);
  lowered.interface = read_interface(loop);
  lowered.loop = std::move(loop);
  return lowered;
}

// J13: a position is an integer, its range runs forwards, its variable is in its body alone, and
// what it subscripts is inside
TEST(PositionRulesTest, PlantedViolationsAreNamed) {
  EXPECT_EQ(refusal("for i0 in 0..5 { at i1 in 0..8 = t0[i0] { t3[i1, 0] = 1:f32 } }\n"), "");
  EXPECT_EQ(refusal("nearest i1 in 2..4 = t0[0] { t3[i1 + 4, 0] = 1:f32 }\n"), "");
  EXPECT_EQ(refusal("at i1 in 3..3 = t0[0] { t3[i1 + 99, 0] = 1:f32 }\n"), "") << "never runs";
  EXPECT_THAT(refusal("at i1 in 0..9 = t0[0] { t3[i1, 0] = 1:f32 }\n"),
              HasSubstr("axis 0 of t3 f32[8,4] is subscripted from 0 to 8"));
  EXPECT_THAT(refusal("at i1 in 0..8 = t1[0, 0] { t3[i1, 0] = 1:f32 }\n"),
              HasSubstr("position i1 is f32 (expected an integer; cast it)"));
  EXPECT_THAT(refusal("at i1 in 0..8 = 1:bool {\n}\n"), HasSubstr("position i1 is bool"));
  EXPECT_THAT(refusal("at i1 in 8..0 = t0[0] {\n}\n"), HasSubstr("bounds 8..0 run backwards"));
  EXPECT_THAT(refusal("nearest i1 in 3..3 = t0[0] {\n}\n"),
              HasSubstr("nothing in 3..3 is nearest"));
  EXPECT_THAT(refusal("for i1 in 0..2 {\n}\nat i1 in 0..8 = t0[0] {\n}\n"),
              HasSubstr("variable i1 of a position is declared twice"));
  EXPECT_THAT(refusal("at i1 in 0..8 = t0[0] {\n}\nt3[i1, 0] = 1:f32\n"),
              HasSubstr("i1 is neither a loop nor a position around here"));
  EXPECT_THAT(refusal("at i1 in 0..5 = t0[i1] {\n}\n"), HasSubstr("i1 is neither"));
}

// J13, J5: no mark makes writes at computed positions change places
TEST(PositionRulesTest, MarksKeepTheOrderOfWrites) {
  EXPECT_THAT(refusal("parallel i0 in 0..5 { at i1 in 0..8 = t0[i0] { t3[i1, 0] = 1:f32 } }\n"),
              HasSubstr("parallel loop i0 writes elements of t3 that other iterations touch"));
  EXPECT_THAT(refusal("lanes i0 in 0..4 { at i1 in 0..8 = t0[i0] { t3[i1, 0] = 1:f32 } }\n"),
              HasSubstr("lanes loop i0 holds a computed position"));
  EXPECT_THAT(refusal("at i1 in 0..8 = t0[0] { lanes i0 in 0..4 { t3[i1, 0] = t1[0, i0] } }\n"),
              HasSubstr("lanes loop i0 writes elements of t3"));
  EXPECT_EQ(refusal("parallel i2 in 0..4 { for i0 in 0..5 { at i1 in 0..8 = t0[i0] {\n"
                    "t3[i1, i2] = add.f32(t3[i1, i2], 1:f32) } } }\n"),
            "")
      << "each iteration has elements of its own";
  EXPECT_EQ(refusal("for i0 in 0..5 { at i1 in 0..8 = t0[i0] { lanes i2 in 0..4 {\n"
                    "t3[i1, i2] = add.f32(t3[i1, i2], t1[i0, i2]) } } }\n"),
            "");
  EXPECT_EQ(refusal("parallel i0 in 0..5 { nearest i1 in 0..8 = t0[i0] {\n"
                    "t2[i0, 0] = t1[i1, 0] } }\n"),
            "")
      << "reads are no writes";
}

// J13: where a type holds nothing beyond an end, nothing is asked
TEST(PositionRulesTest, EndsAreOfTheTypeOfTheValue) {
  const auto bounds = [](DType type, std::int64_t from, std::int64_t to) {
    return position_bounds(
        *make_at(0, from, to, make_constant(Scalar::of_int(type, 0)), true, Block()));
  };
  const PositionBounds wide = bounds(i32, 0, 8);
  EXPECT_EQ(wide.lowest->i, 0);
  EXPECT_EQ(wide.highest->i, 7);
  EXPECT_EQ(wide.highest->dtype, i32);
  EXPECT_FALSE(bounds(u8, 0, 300).lowest || bounds(u8, 0, 300).highest);
  EXPECT_FALSE(bounds(u64, -3, 8).lowest);
  EXPECT_EQ(bounds(u64, -3, 8).highest->i, 7);
  EXPECT_EQ(bounds(i8, -200, 100).highest->i, 99);
  EXPECT_FALSE(bounds(i8, -200, 100).lowest);
  EXPECT_EQ(bounds(u16, -9, -2).only, -3) << "the nearest to all that it holds";
  EXPECT_EQ(bounds(i8, 500, 600).only, 500);
  EXPECT_FALSE(bounds(i64, 500, 600).only);
}

// J13: what statements mean in loops: positions stand inside the last index that they depend on
TEST(PositionLoweringTest, PositionsAreComputedOncePerIndex) {
  const Tensor rows("rows", i32, {5}), x("x", f32, {8, 4}), y("y", f32, {5, 4}),
      z("z", f32, {8, 4});
  Index i, k;
  Program gather("gather");
  gather << (y(i, k) = x(at(rows(i)), k));
  EXPECT_THAT(optimised(gather), HasSubstr("  for i0 in 0..5 {\n"
                                           "    nearest i1 in 0..8 = t0[i0] {\n"
                                           "      for i2 in 0..4 {\n"
                                           "        t1[i0, i2] = t2[i1, i2]\n"));
  Program scatter("scatter");
  scatter << (z(at(rows(i)), k) += y(i, k));
  EXPECT_THAT(optimised(scatter),
              HasSubstr("  for i0 in 0..5 {\n"
                        "    at i1 in 0..8 = t0[i0] {\n"
                        "      for i2 in 0..4 {\n"
                        "        t1[i1, i2] = add.f32(t1[i1, i2], t2[i0, i2])\n"))
      << optimised(scatter);
}

// J13: equal positions are one; one inside another is computed first; a window has its own range
TEST(PositionLoweringTest, NestedAndEqualPositions) {
  const Tensor rows("rows", i32, {5}), more("more", i64, {8}), x("x", f32, {8}), w("w", f32, {8}),
      y("y", f32, {5});
  Index i;
  Program p("nested");
  p << (y(i) = x(at(more(at(rows(i))))) * w(at(more(at(rows(i))))));
  EXPECT_THAT(optimised(p), HasSubstr("    nearest i1 in 0..8 = t0[i0] {\n"
                                      "      nearest i2 in 0..8 = t1[i1] {\n"
                                      "        t2[i0] = mul.f32(t3[i2], t4[i2])\n"));
  const Tensor start("start", i64, {});
  Index n(3);
  Program window("window");
  window << (y(n + 1) = x(at(start()) + n + 2));
  EXPECT_THAT(optimised(window), HasSubstr("  nearest i0 in -2..4 = t0[] {\n"
                                           "    for i1 in 0..3 {\n"
                                           "      t1[i1 + 1] = t2[i0 + i1 + 2]\n"))
      << optimised(window);
}

// J13: neutral elements too are written where positions say, before anything is read
TEST(PositionLoweringTest, ReductionsStartWhatTheyReach) {
  const Tensor rows("rows", i32, {5}), x("x", f32, {5, 2}), y("y", f32, {3});
  Index i, j;
  Program p("sums");
  p << (y(at(rows(i))) = sum(x(i, j)));
  EXPECT_THAT(optimised(p), AllOf(HasSubstr("t1[i1] = 0:f32"), HasSubstr("x0 = add.f32(x0, ")))
      << optimised(p);
  // Not assigned whole: what no position names keeps its value, and begins as zero.
  const Lowered lowered = optimize(lower(p));
  EXPECT_FALSE(lowered.interface.buffers[1].overwrites_whole);
}

// J13: an axis without room: nothing is written; nothing is read where a sum has no terms
TEST(PositionLoweringTest, AxesWithoutRoom) {
  const Tensor rows("rows", i32, {5}), none("none", f32, {0, 4}), x("x", f32, {5, 4}),
      y("y", f32, {5});
  Index i, k, window(9), no(0);
  Program p("nowhere");
  p << (none(at(rows(i)), k) += x(i, k)) << (y(at(rows(0)) + window) = 1);
  EXPECT_THAT(optimised(p), HasSubstr("kernel {\n}\n")) << optimised(p);
  Program sums("sums");
  sums << (y(i) = sum(none(at(rows(i)), no)));
  EXPECT_THAT(optimised(sums), Not(HasSubstr("nearest"))) << optimised(sums);
}

// J8, J13: reads may be anywhere; writes cover nothing
TEST(PositionSignatureTest, WritesCoverNothing) {
  const auto access = [](const std::string& body, std::size_t k) {
    return read_interface(kernel(body)).buffers[k];
  };
  const std::string scatter =
      "for i0 in 0..5 { at i1 in 0..8 = t0[i0] { for i2 in 0..4 {\nt3[i1, i2] = 1:f32 } } }\n";
  EXPECT_TRUE(access(scatter, 0).reads);
  EXPECT_EQ(access(scatter, 3).role, Role::output);
  EXPECT_FALSE(access(scatter, 3).overwrites_whole);
  EXPECT_TRUE(access("zero t3\n" + scatter, 3).overwrites_whole);
  const std::string gather =
      "for i0 in 0..5 { nearest i1 in 0..8 = t0[i0] { for i2 in 0..4 {\n"
      "t2[i0, i2] = t1[i1, i2] } } }\n";
  EXPECT_TRUE(access(gather, 2).overwrites_whole) << "each iteration runs";
  EXPECT_FALSE(access("for i0 in 0..5 { at i1 in 0..8 = t0[i0] { for i2 in 0..4 {\n"
                      "t2[i0, i2] = t1[i1, i2] } } }\n",
                      2)
                   .overwrites_whole)
      << "some may not";
  EXPECT_FALSE(access("nearest i1 in 0..8 = t0[0] { for i2 in 0..4 {\nt3[i1, i2] = 1:f32 } }\n", 3)
                   .overwrites_whole)
      << "one row";
  const std::string adds =
      "for i0 in 0..5 { at i1 in 0..8 = t0[i0] {\nt3[i1, 0] = add.f32(t3[i1, 0], 1:f32) } }\n";
  EXPECT_EQ(access(adds, 3).role, Role::inout);
}

// D9, J13: an output may not lie in memory that is read at computed positions while it is written
TEST(PositionSignatureTest, DonationsAreOnTheSafeSide) {
  const Loop loop = parsed(
      "buffer t0 input i32[8]\nbuffer t1 input f32[8]\nbuffer t2 output f32[8]\n"
      "buffer t3 output f32[8]\n"
      "kernel {\nfor i0 in 0..8 {\nnearest i1 in 0..8 = t0[i0] {\nt2[i0] = t1[i1]\n}\n}\n"
      "for i2 in 0..8 {\nt3[i2] = t1[i2]\n}\n}\n");
  const Interface interface = read_interface(loop);
  const Donations donations(loop, interface.buffers);
  EXPECT_FALSE(donations.may_take(2, 1));
  EXPECT_TRUE(donations.may_take(3, 1));
  const Loop inside = parsed(
      "buffer t0 input i32[8]\nbuffer t1 input f32[8]\nbuffer t2 output f32[8]\n"
      "kernel {\nnearest i1 in 0..8 = t0[0] {\nfor i0 in 0..8 {\nt2[i0] = t1[i0]\n}\n}\n}\n");
  EXPECT_TRUE(Donations(inside, read_interface(inside).buffers).may_take(2, 1));
}

// J5: known positions are none; what stays of them keeps what it needs, and only that
TEST(PositionPassesTest, KnownPositionsAreNone) {
  const auto simple = [](const std::string& body) {
    const std::string text = print(simplify(of_loop(kernel(body)), false).loop);
    return text.substr(text.find("kernel {\n") + 9);
  };
  EXPECT_EQ(simple("at i1 in 0..8 = 3:u8 { t3[i1, 0] = 1:f32 }\n"), "  t3[3, 0] = 1:f32\n}\n");
  EXPECT_EQ(simple("at i1 in 0..8 = 8:i32 { t3[i1, 0] = 1:f32 }\n"), "}\n");
  EXPECT_EQ(simple("at i1 in 0..8 = -1:i8 { t3[i1, 0] = 1:f32 }\n"), "}\n");
  EXPECT_EQ(simple("nearest i1 in 0..8 = 18446744073709551615:u64 { t3[i1, 0] = 1:f32 }\n"),
            "  t3[7, 0] = 1:f32\n}\n");
  EXPECT_EQ(simple("nearest i1 in 2..8 = -5:i64 { t3[i1, 0] = 1:f32 }\n"),
            "  t3[2, 0] = 1:f32\n}\n");
  EXPECT_EQ(simple("nearest i1 in 2..3 = t0[0] { t3[i1, 0] = 1:f32 }\n"),
            "  t3[2, 0] = 1:f32\n}\n");
  EXPECT_EQ(simple("at i1 in 0..8 = t0[0] {\n# nothing\n}\n"), "}\n");
  // A local that is read once, but in the body: it stays where it is.
  const std::string local =
      "  let x0: f32 = t2[0, 0]\n  at i1 in 0..8 = t0[0] {\n    t2[0, 0] = 1:f32\n"
      "    t3[i1, 0] = x0\n  }\n}\n";
  EXPECT_EQ(simple(local.substr(0, local.size() - 2)), local);
}

// J5: a position is live where what it leads to is
TEST(PositionPassesTest, PositionsOfLiveStoresAreLive) {
  Loop loop = parsed(
      "buffer t0 input i32[5]\nbuffer t1 scratch i32[5]\nbuffer t2 output f32[8]\n"
      "buffer t3 scratch f32[8]\nbuffer t4 scratch i32[5]\nkernel {\n"
      "for i0 in 0..5 {\nt1[i0] = t0[i0]\n}\n"
      "for i1 in 0..5 {\nt4[i1] = t0[i1]\n}\n"
      "for i2 in 0..5 {\nlet x0: i32 = t1[i2]\nat i3 in 0..8 = x0 {\nt2[i3] = 1:f32\n}\n}\n"
      "for i4 in 0..5 {\nat i5 in 0..8 = t4[i4] {\nt3[i5] = 1:f32\n}\n}\n}\n");
  const std::string kept = print(drop_dead(of_loop(std::move(loop))).loop);
  EXPECT_THAT(kept, AllOf(HasSubstr("t1[i0] = t0[i0]"), HasSubstr("let x0: i32 = t1[i2]"),
                          HasSubstr("t2[i3]"), Not(HasSubstr("t4[i1]")), Not(HasSubstr("t3[i5]"))));
}

// J4, J13: a scatter of single elements reads at their positions what it adds; rows are stored
// first, as vectors go along rows
TEST(PositionPassesTest, ScattersReadTheirElementsAtPositions) {
  const Tensor from("from", i32, {5}), to("to", i32, {5}), x("x", f32, {8}), h("h", f32, {5}),
      y("y", f32, {9}), rows("rows", f32, {8, 4}), parts("parts", f32, {5, 4}),
      sums("sums", f32, {9, 4});
  Index i, k;
  Program single("single");
  single << (h(i) = x(at(from(i))) * 2) << (y(i) = 0) << (y(at(to(i))) += h(i));
  const std::string text = optimised(single);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("scratch")), HasSubstr("let x0: f32 = 0:f32"),
                          HasSubstr("x0 = mul.f32(t")))
      << text;
  Program wide("wide");
  wide << (parts(i, k) = rows(at(from(i)), k)) << (sums(i, k) = 0)
       << (sums(at(to(i)), k) += parts(i, k));
  EXPECT_THAT(optimised(wide), HasSubstr("scratch f32[5,4]"));
  // What is itself written at positions is not whole.
  Program chain("chain");
  const Tensor some("some", f32, {5});
  chain << (h(i) = 0) << (h(at(from(i))) += some(i)) << (y(i) = 0) << (y(at(to(i))) += h(i));
  EXPECT_THAT(optimised(chain), HasSubstr("scratch f32[5]"));
  // Two readers: the element is looked up once.
  Program twice("twice");
  const Tensor z("z", f32, {9});
  twice << (h(i) = x(at(from(i)))) << (y(i) = 0) << (z(i) = 0) << (y(at(to(i))) += h(i))
        << (z(at(from(i))) += h(i));
  EXPECT_THAT(optimised(twice), HasSubstr("scratch f32[5]"));
}

// J4, J13: what is defined at computed positions is stored; what is read there may be recomputed
TEST(PositionPassesTest, DefinitionsAtPositionsAreStored) {
  const Tensor rows("rows", i32, {5}), x("x", f32, {8}), h("h", f32, {5}), y("y", f32, {5});
  Index i;
  Program stored("stored");
  stored << (h(i) = x(at(rows(i)))) << (y(i) = h(i) * 2);
  EXPECT_THAT(optimised(stored), HasSubstr("scratch f32[5]"));
  const Tensor asked("asked", f32, {5});
  asked.set_mode(MemoryMode::virtual_);
  Program refused("refused");
  refused << (asked(i) = x(at(rows(i)))) << (y(i) = asked(i) * 2);
  try {
    static_cast<void>(optimised(refused));
    ADD_FAILURE() << "it was inlined";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), AllOf(HasSubstr("'asked' cannot be virtual"),
                                    HasSubstr("11: a statement that assigns it reads or writes at "
                                              "computed positions")));
  }
  const Tensor tripled("tripled", f32, {8});
  tripled.set_mode(MemoryMode::virtual_);
  Program read("read");
  read << (tripled(i) = x(i) * 3) << (y(i) = tripled(at(rows(i))));
  EXPECT_THAT(optimised(read), HasSubstr("t1[i0] = mul.f32(t2[i1], 3:f32)")) << optimised(read);
}

// J9, J13: rows at positions are copied and added by vectors, in the order of the rows
TEST(PositionScheduleTest, VectorsGoAlongRows) {
  const Tensor rows("rows", i32, {50}), x("x", f32, {80, 64}), y("y", f32, {50, 64}),
      u("u", f32, {50, 64}), z("z", f32, {80, 64});
  Index i, k;
  Program p("rows");
  p << (y(i, k) = x(at(rows(i)), k)) << (z(at(rows(i)), k) += u(i, k));
  const std::string text = print(schedule(optimize(lower(p)), native_target()).loop);
  EXPECT_THAT(text, AllOf(HasSubstr("nearest"), HasSubstr("lanes"), Not(HasSubstr("parallel"))));
  EXPECT_LT(text.find("at i"), text.rfind("lanes"));
  // Nothing makes vectors of rows themselves.
  const Tensor one("one", f32, {80});
  Program single("single");
  single << (one(at(rows(i))) += u(i, 0));
  EXPECT_THAT(print(schedule(optimize(lower(single)), native_target()).loop),
              AllOf(HasSubstr("for i0 in 0..50 {\n    at i1"), Not(HasSubstr("lanes"))));
}

// J9: a loop that writes at positions carries a dependence; one that only reads there carries none
TEST(PositionScheduleTest, LoopsThatWriteAtPositionsCarryDependences) {
  const auto carried = [](const std::string& body) {
    const Loop loop = kernel(body);
    return carried_dependences(loop, plan_lanes(loop.buffers, loop.body, native_target()));
  };
  const CarriedDependences scatter = carried(
      "for i0 in 0..5 { at i1 in 0..8 = t0[i0] { for i2 in 0..4 {\n"
      "t3[i1, i2] = add.f32(t3[i1, i2], 1:f32) } } }\n");
  EXPECT_TRUE(scatter.contains(0));
  EXPECT_FALSE(scatter.contains(2));
  EXPECT_TRUE(carried("for i0 in 0..5 { nearest i1 in 0..8 = t0[i0] { t2[i0, 0] = t1[i1, 0] } }\n")
                  .empty());
}

// J9, J13: positions that follow from indices are subscripts, and loops are cut at the edges, inner
// loops first
TEST(PositionScheduleTest, AffinePositionsAreSubscripts) {
  const Tensor x("x", f32, {30, 40}), y("y", f32, {30, 40}), before("before", i32, {30});
  Index i, j;
  Program p("neighbours");
  p << (before(i) = embed(i - 1))
    << (y(i, j) = x(at(before(i)), j) + x(at(embed(i + 1)), j) + x(i, at(embed(j - 1))) +
                  x(i, at(embed(j + 1))));
  const Loop all = schedule(optimize(lower(p)), tiny_target(Isa::avx2)).loop;
  const std::string text = print(all);
  EXPECT_THAT(text, AllOf(Not(HasSubstr("nearest")), Not(HasSubstr("scratch")),
                          HasSubstr("for i5 in 0..28"), HasSubstr("lanes")))
      << text;
  Program wide("wide");  // 25 parts are too many: the inner loop alone is cut
  wide << (y(i, j) = x(at(embed(i - 1)), at(embed(j - 1))) + x(at(embed(i + 1)), at(embed(j + 1))) +
                     x(at(embed(i - 2)), at(embed(j - 2))) + x(at(embed(i + 2)), at(embed(j + 2))));
  EXPECT_THAT(print(schedule(optimize(lower(wide)), tiny_target(Isa::avx2)).loop),
              AllOf(HasSubstr("nearest"), HasSubstr("lanes")));
}

// J9, J13: quotients and remainders of an index are those of whole periods, and of the rests around
TEST(PositionScheduleTest, QuotientsAreLoopsOfPeriods) {
  const auto settled = [](const std::string& position, int extent, const std::string& rows = "") {
    const Loop plain = parsed(fmt::format(
        "buffer t0 input f32[40,4]\nbuffer t1 inout f32[60,4]\nkernel {{\nfor i0 in 0..{} {{\n"
        "nearest i1 in 0..40 = {} {{\n{}\n}}\n}}\n}}\n",
        extent, position, rows.empty() ? "t1[i0, 0] = t0[i1, 0]" : rows));
    Fresh fresh(plain);
    Loop made = plain;
    made.body = renumbered(with_settled_positions(fresh, plain.body, 9));
    EXPECT_TRUE(verify(made).ok()) << print(made);
    std::vector<HostArray> expected, found;
    for (auto* arrays : {&expected, &found}) {
      for (std::size_t k = 0; k < 2; ++k)
        arrays->push_back(small_numbers(plain.buffers[k].type, k));
    }
    interpret(plain, expected);
    interpret(made, found);
    EXPECT_TRUE(same_elements(expected[1], found[1])) << print(made);
    return print(made);
  };
  EXPECT_THAT(settled("div.i64(index(i0), 2:i64)", 60),
              AllOf(HasSubstr("for i0 in 0..30 {\n    for i1 in 0..2 {\n"
                              "      t1[2*i0 + i1, 0] = t0[i0, 0]\n"),
                    Not(HasSubstr("nearest"))));
  EXPECT_THAT(settled("mod.i32(i32(index(i0)), 3:i32)", 59),
              AllOf(HasSubstr("for i0 in 0..19 {\n    for i1 in 0..3 {\n"
                              "      t1[3*i0 + i1, 0] = t0[i1, 0]\n"),
                    HasSubstr("for i2 in 0..2 {\n    t1[i2 + 57, 0] = t0[i2, 0]\n"),
                    Not(HasSubstr("nearest"))));
  EXPECT_THAT(settled("div.i64(index(i0 + 3), 5:i64)", 60),
              AllOf(HasSubstr("for i0 in 0..2 {\n    t1[i0, 0] = t0[0, 0]\n"),
                    HasSubstr("t1[5*i1 + i2 + 2, 0] = t0[i1 + 1, 0]\n"),
                    HasSubstr("for i3 in 0..3 {\n    t1[i3 + 57, 0] = t0[12, 0]\n"),
                    Not(HasSubstr("nearest"))));
  EXPECT_THAT(settled("min.i64(add.i64(div.i64(index(i0), 2:i64), 1:i64), 29:i64)", 60),
              AllOf(HasSubstr("t1[2*i0 + i1, 0] = t0[i0 + 1, 0]\n"),
                    HasSubstr("t1[2*i2 + i3 + 56, 0] = t0[29, 0]\n"), Not(HasSubstr("nearest"))));
  EXPECT_THAT(settled("div.i64(index(2*i0), 3:i64)", 60), HasSubstr("nearest")) << "no whole step";
  EXPECT_THAT(settled("mul.i64(div.i64(index(i0), 2:i64), div.i64(index(i0), 2:i64))", 12),
              AllOf(HasSubstr("for i0 in 0..12"), HasSubstr("nearest")));
  // Vectors do these at positions.
  EXPECT_THAT(
      settled("div.i64(index(i0), 2:i64)", 60, "for i2 in 0..4 {\n t1[i0, i2] = t0[i1, i2]\n}"),
      HasSubstr("nearest"));
  EXPECT_THAT(settled("div.i64(index(i0), 2:i64)", 60,
                      "for i2 in 0..4 {\n t1[i0, i2] = add.f32(t0[i1, i2], t1[i0, i2])\n}"),
              Not(HasSubstr("nearest")));
  const std::string costly = "t1[i0, 0] = exp.f32(t0[i1, 0])";
  EXPECT_THAT(settled("div.i64(index(i0), 5:i64)", 60, costly), HasSubstr("nearest"));
  EXPECT_THAT(settled("div.i64(index(i0), 4:i64)", 60, costly), Not(HasSubstr("nearest")));
}

// J9: cuts of an outer loop that bring cuts of inner loops about keep to the limit of parts
TEST(PositionScheduleTest, PartsOfNestsAreFew) {
  const Loop plain = parsed(
      "buffer t0 input f32[20,20,20]\nbuffer t1 inout f32[20,20,20]\nkernel {\n"
      "for i0 in 0..10 { nearest i3 in 1..9 = index(i0) {\n"
      "for i1 in 0..10 { nearest i4 in 6..14 = "
      "add.i64(where.i64(lt.i64(index(i0), 1:i64), 5:i64, 6:i64), index(i1)) {\n"
      "for i2 in 0..10 { nearest i5 in 6..14 = "
      "add.i64(where.i64(lt.i64(index(i1), 1:i64), 5:i64, 6:i64), index(i2)) {\n"
      "t1[i0, i1, i2] = t0[i3, i4, i5]\n} } } } } }\n}\n");
  Fresh fresh(plain);
  int stores = 0;
  walk(with_settled_positions(fresh, plain.body, 9),
       [&](const Stmt& stmt) { stores += stmt.kind == StmtKind::store ? 1 : 0; });
  EXPECT_GT(stores, 1);
  EXPECT_LE(stores, 9);
}

// J5, J13: loops with settled positions do what they did
TEST(PositionScheduleTest, SettledPositionsAreWhereTheyWere) {
  std::mt19937 random(1);
  const auto below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int settled_ones = 0;
  for (int round = 0; round < 400; ++round) {
    const int n = 1 + below(40), m = 1 + below(6);
    const auto value = [&](int var) {
      const std::string index = fmt::format("index({}*i{} {} {})", 1 + below(3), var,
                                            below(2) == 0 ? '+' : '-', 1 + below(5));
      const std::string other = fmt::format("index({}*i{})", 1 + below(2), below(var + 1));
      const int k = below(50) - 10;
      switch (below(11)) {
        case 8:
          return fmt::format("div.i64({}, {}:i64)", index, 1 + below(7));
        case 9:
          return fmt::format("mod.i64(index(i{} + {}), {}:i64)", var, below(5), 1 + below(6));
        case 10:
          return fmt::format("div.i32(i32(index(i{} + {})), {}:i32)", var, below(5), 1 + below(6));
        case 0:
          return fmt::format("sub.i64({}, {}:i64)", index, k);
        case 1:
          return fmt::format("max.i64({}, min.i64({}:i64, {}))", index, k, other);
        case 2:
          return fmt::format("mod.i64({}, {}:i64)", index, 1 + below(20));
        case 3:
          return fmt::format("where.i64(lt.i64({}, {}:i64), {}, {})", index, k, other, index);
        case 4:
          return fmt::format("where.i64(le.i64({}:i64, {}), {}, {})", k, index, other, index);
        case 5:
          return fmt::format("add.i8(i8({}), {}:i8)", index, k + 60);
        case 6:
          return fmt::format("neg.i32(mul.i32(i32({}), {}:i32))", index, below(5) - 2);
        default:
          return fmt::format("sub.i64({}, {})", index, other);
      }
    };
    const auto kind = [&] { return below(2) == 0 ? "at" : "nearest"; };
    const Loop plain = parsed(fmt::format(
        "buffer t0 input f32[40]\nbuffer t1 inout f32[40,6]\nkernel {{\n"
        "for i0 in 0..{} {{\n{} i2 in 3..{} = {} {{\n{} i3 in 0..30 = {} {{\nfor i1 in {}..{} "
        "{{\n{} i4 in 0..6 = {} {{\n"
        "t1[i2 - 3, i4] = add.f32(mul.f32(t1[i2, i4], 3:f32), t0[i3])\n}}\n}}\n}}\n}}\n}}\n}}\n",
        n, kind(), 4 + below(36), value(0), kind(), value(0), below(2), m + 2, kind(), value(1)));
    ASSERT_TRUE(verify(plain).ok()) << print(plain);
    Fresh fresh(plain);
    Loop settled = plain;
    settled.body = renumbered(with_settled_positions(fresh, plain.body, 9));
    ASSERT_TRUE(verify(settled).ok()) << print(plain) << print(settled);
    settled_ones += settled == plain ? 0 : 1;
    std::vector<HostArray> expected, found;
    for (auto* arrays : {&expected, &found})
      for (std::size_t k = 0; k < 2; ++k)
        arrays->push_back(small_numbers(plain.buffers[k].type, k + static_cast<unsigned>(round)));
    interpret(plain, expected);
    interpret(settled, found);
    ASSERT_TRUE(same_elements(expected[1], found[1])) << print(plain) << print(settled);
  }
  EXPECT_GT(settled_ones, 200);
}

// Coefficients that no array has do not overflow in subscripts
TEST(PositionScheduleTest, LargeCoefficientsAreNoSubscripts) {
  const Loop plain = parsed(
      "buffer t0 input f32[40]\nbuffer t1 inout f32[40]\nkernel {\nfor i0 in 0..4 {\n"
      "nearest i1 in 0..40 = where.i64(lt.i64(index(i0), 1:i64), index(4611686018427387904*i0), "
      "3:i64) {\nt1[i0] = t0[i1]\n}\n}\n}\n");
  Fresh fresh(plain);
  Loop settled = plain;
  settled.body = renumbered(with_settled_positions(fresh, plain.body, 9));
  EXPECT_EQ(print(settled).find("t0[4611686018427387904"), std::string::npos) << print(settled);
}

// J10: long loops inside a position look whether they are to stop
TEST(PositionScheduleTest, LongLoopsInPositionsStop) {
  const Loop loop = parsed(
      "buffer t0 input i32[]\nbuffer t1 inout f32[8]\nkernel {\nat i0 in 0..8 = t0[] {\n"
      "for i1 in 0..100000 {\nfor i2 in 0..30000 {\nt1[i0] = add.f32(t1[i0], 1:f32)\n}\n}\n}\n}\n");
  const StopChecks checks = stop_checks(loop);
  EXPECT_TRUE(checks.any);
  EXPECT_EQ(checks.every.at(1), 1);
}

}  // namespace
}  // namespace heddle::jit::testing
