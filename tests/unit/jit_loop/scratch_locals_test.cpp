// Scratch of one iteration, as locals.
#include <gtest/gtest.h>

#include <string>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

/// Whether the schedule of these statements leaves one element of the scratch t1.
bool is_local(const std::string& body) {
  const Lowered lowered = lowered_from(
      "buffer t0 input i32[3,40]\nbuffer t1 scratch i32[3,40]\nbuffer t2 output i32[40]\nkernel "
      "{\n" +
      body + "}\n");
  expect_unchanged(lowered);
  const Lowered made = schedule(lowered, with_isa(native_target(), Isa::avx512));
  return made.loop.buffers[1].type.num_elements() == 1;
}
std::string loop(const std::string& statements) {
  return "for i0 in 0..40 {\n" + statements + "}\n";
}

// J9: elements that differ by numbers are locals, quotients of integers included
TEST(ScratchLocalsTest, ElementsOfAnIterationAreLocals) {
  EXPECT_TRUE(
      is_local(loop("t1[0, i0] = div.i32(t0[0, i0], 7:i32)\n"
                    "t1[2, i0] = div.i32(t1[0, i0], 3:i32)\n"
                    "t2[i0] = add.i32(t1[0, i0], t1[2, i0])\n")));
  EXPECT_TRUE(
      is_local(loop("t1[0, i0] = div.i32(t0[0, i0], 7:i32)\n"
                    "t1[0, i0] = div.i32(t1[0, i0], 3:i32)\nt2[i0] = t1[0, i0]\n")))
      << "stored twice";
}

// J9: elements of an iteration in two parts of an axis are locals, in loops of their own, too
TEST(ScratchLocalsTest, PartsOfAnAxisAreLocals) {
  const auto parts = [](int distance) {
    const std::string second = "i1 + " + std::to_string(distance),
                      third = "i2 + " + std::to_string(distance);
    return "for i0 in 0..20 {\nt1[0, i0] = div.i32(t0[0, i0], 7:i32)\n}\nfor i1 in 0..20 "
           "{\nt1[0, " +
           second + "] = div.i32(t0[1, i1], 5:i32)\n}\nfor i2 in 0..20 {\nt2[i2] = add.i32(t1[0, " +
           "i2], div.i32(t1[0, " + third + "], 3:i32))\n}\n";
  };
  EXPECT_TRUE(is_local(parts(20)));
  EXPECT_FALSE(is_local(parts(19)));
}

// J9: elements of other iterations, of other loops, and from before the loop are none
TEST(ScratchLocalsTest, OthersStay) {
  EXPECT_FALSE(
      is_local("for i0 in 0..39 {\nt1[0, i0 + 1] = div.i32(t0[0, i0], 7:i32)\n"
               "t2[i0] = add.i32(t1[0, i0 + 1], div.i32(t1[0, i0], 3:i32))\n}\n"));
  EXPECT_FALSE(is_local("zero t1\n" + loop("t2[i0] = div.i32(t1[0, i0], 3:i32)\n"
                                           "t1[0, i0] = div.i32(t0[0, i0], 7:i32)\n")));
  EXPECT_FALSE(is_local(loop("t1[0, i0] = div.i32(t0[0, i0], 7:i32)\nt2[i0] = t1[0, i0]\n") +
                        "t2[3] = t1[0, 3]\n"));
}

}  // namespace
}  // namespace heddle::jit::testing
