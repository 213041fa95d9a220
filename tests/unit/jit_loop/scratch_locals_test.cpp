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
