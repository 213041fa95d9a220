// Simplification of values and statements, dead code, renumbering: text in, text out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "jit/loop/text.hpp"
#include "jit/lower/passes.hpp"

namespace heddle::jit {
namespace {

const std::string header =
    "heddle-loop 1\nbuffer t0 input f32[4]\nbuffer t1 input i8[4]\nbuffer t2 input bool[4]\n"
    "buffer t3 input f16[4]\nbuffer t4 inout f32[4]\nbuffer t5 inout i8[4]\n"
    "buffer t6 inout bool[4]\nbuffer t7 inout f16[4]\nbuffer t8 scratch f32[4]\n";

Loop kernel_of(const std::string& body) { return parse_loop(header + "kernel {\n" + body + "}\n"); }

std::string body_of(const Loop& loop) {
  const std::string text = print(loop);
  const std::string start = "kernel {\n";
  const std::size_t from = text.find(start) + start.size();
  return text.substr(from, text.size() - from - 2);
}

std::string simplified(const std::string& body, bool fast_math = false) {
  Lowered lowered;
  lowered.loop = kernel_of(body);
  return body_of(simplify(std::move(lowered), fast_math).loop);
}

/// "target = value" after simplification.
std::string value(const std::string& target, const std::string& text, bool fast_math = false) {
  const std::string line = simplified("  " + target + "[0] = " + text + "\n", fast_math);
  const std::size_t from = line.find("= ") + 2;
  return line.substr(from, line.size() - from - 1);
}
std::string real(const std::string& text) { return value("t4", text); }
std::string loose(const std::string& text) { return value("t4", text, true); }
std::string whole(const std::string& text) { return value("t5", text); }
std::string truth(const std::string& text) { return value("t6", text); }

// J3, J5: constants fold to what compiled code gives, functions included
TEST(SimplifyTest, ConstantsFold) {
  EXPECT_EQ(real("add.f32(0.1:f32, 0.2:f32)"), "0.3:f32");
  EXPECT_EQ(real("div.f32(1:f32, 0:f32)"), "inf:f32");
  EXPECT_EQ(real("exp.f32(0:f32)"), "1:f32");
  EXPECT_EQ(whole("add.i8(127:i8, 1:i8)"), "-128:i8");
  EXPECT_EQ(real("f32(f16(f32(index(3))))"), "3:f32");
}

// J5, J9: a value that nothing reads before a loop stands behind it, if it is the same value there
TEST(SimplifyTest, ValuesGoBehindLoopsThatLeaveThemAlone) {
  const auto goes_behind = [](const std::string& let, const std::string& inside) {
    const std::string text =
        simplified("  let x0: f32 = t0[1]\n  let x1: f32 = " + let + "\n  for i0 in 0..4 {\n    " +
                   inside + "\n  }\n  t4[1] = x1\n  t4[2] = mul.f32(x1, x0)\n");
    return text.find("let x1") > text.find("for i0");
  };
  EXPECT_TRUE(goes_behind("neg.f32(t0[0])", "x0 = add.f32(x0, t0[i0])"));
  EXPECT_TRUE(goes_behind("neg.f32(t8[0])", "t4[i0] = t0[i0]"));
  EXPECT_FALSE(goes_behind("neg.f32(t4[0])", "t4[i0] = t0[i0]")) << "the loop stores its element";
  EXPECT_FALSE(goes_behind("neg.f32(x0)", "x0 = add.f32(x0, t0[i0])")) << "the loop assigns x0";
  EXPECT_FALSE(goes_behind("neg.f32(t0[0])", "t4[i0] = x1")) << "the loop reads it";
}

// J5: only identities that keep every bit, signed zeros and NaN included
TEST(SimplifyTest, FloatIdentitiesAreExact) {
  EXPECT_EQ(real("add.f32(t0[0], -0:f32)"), "t0[0]");
  EXPECT_EQ(real("add.f32(t0[0], 0:f32)"), "add.f32(t0[0], 0:f32)") << "-0 + 0 is 0";
  EXPECT_EQ(real("sub.f32(t0[0], 0:f32)"), "t0[0]");
  EXPECT_EQ(real("sub.f32(t0[0], -0:f32)"), "sub.f32(t0[0], -0:f32)");
  EXPECT_EQ(real("mul.f32(1:f32, t0[0])"), "t0[0]");
  EXPECT_EQ(real("div.f32(t0[0], 1:f32)"), "t0[0]");
  EXPECT_EQ(real("pow.f32(t0[0], 1:f32)"), "t0[0]");
  EXPECT_EQ(real("neg.f32(neg.f32(t0[0]))"), "t0[0]");
  EXPECT_EQ(real("mul3.f32(-1:f32, t0[0], t0[1])"), "mul.f32(neg.f32(t0[0]), t0[1])");
  EXPECT_EQ(real("mul3.f32(t0[0], -1:f32, t0[1])"), "mul.f32(neg.f32(t0[0]), t0[1])");
  EXPECT_EQ(real("mul3.f32(t0[0], t0[1], -1:f32)"), "neg.f32(mul.f32(t0[0], t0[1]))");
  EXPECT_EQ(real("mul.f32(t0[0], 0:f32)"), "mul.f32(t0[0], 0:f32)") << "NaN * 0 is NaN";
  EXPECT_EQ(real("div.f32(0:f32, t0[0])"), "div.f32(0:f32, t0[0])");
  EXPECT_EQ(real("sub.f32(t0[0], t0[0])"), "sub.f32(t0[0], t0[0])");
  EXPECT_EQ(real("add.f32(add.f32(t0[0], 1:f32), 2:f32)"), "add.f32(add.f32(t0[0], 1:f32), 2:f32)");
  EXPECT_EQ(real("pow.f32(t0[0], 2:f32)"), "pow.f32(t0[0], 2:f32)");
}

// J5: carelessness about NaN and infinity only where asked for
TEST(SimplifyTest, FastMathIsCareless) {
  EXPECT_EQ(loose("add.f32(t0[0], 0:f32)"), "t0[0]");
  EXPECT_EQ(loose("mul.f32(t0[0], -0:f32)"), "0:f32");
  EXPECT_EQ(loose("div.f32(0:f32, t0[0])"), "0:f32");
  EXPECT_EQ(loose("add.f32(2:f32, add.f32(t0[0], 1:f32))"), "add.f32(t0[0], 3:f32)");
  EXPECT_EQ(loose("sub.f32(sub.f32(t0[0], 1:f32), 2:f32)"), "sub.f32(t0[0], 3:f32)");
  EXPECT_EQ(loose("add.f32(sub.f32(t0[0], 1:f32), 4:f32)"), "sub.f32(t0[0], -3:f32)");
  EXPECT_EQ(loose("div.f32(mul.f32(t0[0], 6:f32), 3:f32)"), "mul.f32(t0[0], 2:f32)");
  EXPECT_EQ(loose("pow.f32(t0[0], 3:f32)"), "mul3.f32(t0[0], t0[0], t0[0])");
  EXPECT_EQ(loose("pow.f32(t0[0], 0:f32)"), "1:f32");
}

// J5: integers wrap, so their algebra is exact
TEST(SimplifyTest, IntegersRegroup) {
  EXPECT_EQ(whole("add.i8(add.i8(t1[0], 100:i8), 100:i8)"), "add.i8(t1[0], -56:i8)");
  EXPECT_EQ(whole("sub.i8(add.i8(t1[0], 5:i8), 5:i8)"), "t1[0]");
  EXPECT_EQ(whole("mul.i8(0:i8, t1[0])"), "0:i8");
  EXPECT_EQ(whole("div.i8(div.i8(t1[0], 2:i8), 3:i8)"), "div.i8(div.i8(t1[0], 2:i8), 3:i8)");
  EXPECT_EQ(whole("pow.i8(t1[0], 2:i8)"), "mul.i8(t1[0], t1[0])");
  EXPECT_EQ(whole("pow.i8(t1[0], 0:i8)"), "1:i8");
}

// J5
TEST(SimplifyTest, TruthAndChoice) {
  EXPECT_EQ(truth("and.bool(t2[0], 1:bool)"), "t2[0]");
  EXPECT_EQ(truth("and.bool(t2[0], 0:bool)"), "0:bool");
  EXPECT_EQ(truth("or.bool(0:bool, t2[0])"), "t2[0]");
  EXPECT_EQ(truth("or.bool(t2[0], 1:bool)"), "1:bool");
  EXPECT_EQ(truth("not.bool(not.bool(t2[0]))"), "t2[0]");
  EXPECT_EQ(real("where.f32(1:bool, t0[0], t0[1])"), "t0[0]");
  EXPECT_EQ(real("where.f32(t2[0], t0[1], t0[1])"), "t0[1]");
  EXPECT_EQ(real("arg2.f32(t0[0], t0[1])"), "t0[1]");
}

// J1, J5: conversions cancel only where no value is lost on the way
TEST(SimplifyTest, ConversionsCancel) {
  EXPECT_EQ(value("t7", "f16(f32(t3[0]))"), "t3[0]");
  EXPECT_EQ(real("f32(f16(t0[0]))"), "f32(f16(t0[0]))") << "rounding stays";
  EXPECT_EQ(real("f32(f64(t0[0]))"), "t0[0]");
  EXPECT_EQ(real("f32(f64(t3[0]))"), "f32(t3[0])");
  EXPECT_EQ(whole("i8(i32(t1[0]))"), "t1[0]");
  EXPECT_EQ(whole("i8(f16(t1[0]))"), "t1[0]");
  EXPECT_EQ(whole("i8(u8(t1[0]))"), "i8(u8(t1[0]))");
  EXPECT_EQ(whole("i8(u32(f32(t1[0])))"), "i8(u32(f32(t1[0])))") << "floats saturate";
  EXPECT_EQ(truth("bool(f32(t2[0]))"), "t2[0]");
  EXPECT_EQ(real("f32(t2[0])"), "f32(t2[0])");
  EXPECT_EQ(real("f32(lt.f32(t0[0], t0[1]))"), "where.f32(lt.f32(t0[0], t0[1]), 1:f32, 0:f32)")
      << "vectors have no other form";
}

// J5: loops of no and of one iteration, locals used once, repeated assignments
TEST(SimplifyTest, StatementsShrink) {
  EXPECT_EQ(simplified("  for i0 in 0..0 {\n    t4[0] = 1:f32\n  }\n"), "");
  EXPECT_EQ(simplified("  for i0 in 2..3 {\n    let x0: f32 = t0[i0]\n    t4[i0] = x0\n  }\n"),
            "  t4[2] = t0[2]\n");
  EXPECT_EQ(simplified("  let x0: f32 = t0[0]\n  let x1: f32 = neg.f32(x0)\n  t4[0] = x1\n"),
            "  t4[0] = neg.f32(t0[0])\n");
  EXPECT_EQ(simplified("  let x0: f32 = t0[0]\n  t4[0] = 1:f32\n  t4[1] = x0\n"),
            "  let x0: f32 = t0[0]\n  t4[0] = 1:f32\n  t4[1] = x0\n")
      << "a load does not move past a store";
  EXPECT_EQ(simplified("  let x0: f32 = t0[0]\n  x0 = neg.f32(x0)\n  x0 = exp.f32(x0)\n"
                       "  t4[0] = x0\n  t4[1] = x0\n"),
            "  let x0: f32 = exp.f32(neg.f32(t0[0]))\n  t4[0] = x0\n  t4[1] = x0\n");
  EXPECT_EQ(simplified("  let x0: f32 = 2:f32\n  for i0 in 0..4 {\n    t4[i0] = mul.f32(x0, x0)\n"
                       "  }\n"),
            "  for i0 in 0..4 {\n    t4[i0] = 4:f32\n  }\n");
}

// J5: a position of the same value and range as one around it is that position, unless the value
// changes in between, or the outer one takes in what is outside
TEST(SimplifyTest, SamePositionsAreOne) {
  const std::string load = "t4[i1] = t0[i2]\n";
  const std::string at = "  at i1 in 0..4 = t1[0] {\n",
                    nearest = "  nearest i1 in 0..4 = t1[0] {\n";
  const std::string same = "    nearest i2 in 0..4 = t1[0] {\n      " + load + "    }\n";
  const auto once = [&](const std::string& text) {
    const std::string loop = "  for i0 in 0..4 {\n    t5[i0] = 1:i8\n  }\n";
    const std::string found = simplified(loop + text);
    EXPECT_EQ(found.substr(0, loop.size()), loop);
    return found.substr(loop.size());
  };
  EXPECT_EQ(once(at + same + "  }\n"), at + "    t4[i1] = t0[i1]\n  }\n");
  EXPECT_EQ(once(nearest + same + "  }\n"), nearest + "    t4[i1] = t0[i1]\n  }\n");
  const std::string checked =
      nearest + "    at i2 in 0..4 = t1[0] {\n      " + load + "    }\n  }\n";
  EXPECT_EQ(once(checked), checked);
  const std::string other = at + "    nearest i2 in 0..4 = t1[1] {\n      " + load + "    }\n  }\n";
  EXPECT_EQ(once(other), other);
  const std::string changed =
      "  at i1 in 0..4 = t5[0] {\n    t5[i1] = 3:i8\n    nearest i2 in "
      "0..4 = t5[0] {\n      " +
      load + "    }\n  }\n";
  EXPECT_EQ(once(changed), changed);
}

// J5: what no output depends on goes, loops left empty with it
TEST(DropDeadTest, SweepsWhatNobodySees) {
  const auto swept = [](const std::string& body) {
    Lowered lowered;
    lowered.loop = kernel_of(body);
    return body_of(drop_dead(std::move(lowered)).loop);
  };
  const std::string dead =
      "  zero t8\n  for i0 in 0..4 {\n    let x0: f32 = 0:f32\n    for i1 in 0..4 {\n"
      "      x0 = add.f32(x0, t0[i1])\n    }\n    t8[i0] = x0\n  }\n";
  EXPECT_EQ(swept(dead), "");
  const std::string live = dead + "  t4[0] = t8[3]\n";
  EXPECT_EQ(swept(live), live);
  EXPECT_EQ(swept("  # why\n" + dead), "  # why\n");
}

}  // namespace
}  // namespace heddle::jit
