// Where kernels are cut. That those cut do what the whole one does is for the random tests.
#include <gtest/gtest.h>

#include <string>

#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/cut.hpp"

namespace heddle::jit {
namespace {

// J7: what only fetches is in the kernel of what it fetches for, which may write there
TEST(CutTest, FetchesStayWithWhatTheyAreFor) {
  const Loop loop = parse_loop(R"(heddle-loop 1
buffer t0 output f32[8,8]
buffer t1 output f32[8]
kernel {
  for i0 in 0..8 {
    t1[i0] = 1:f32
  }
  unroll i1 in 0..8 {
    prefetchw t0[i1, 0]
  }
  prefetchw t0[0, 7]
  for i2 in 0..8 {
    t0[i2, i2] = 2:f32
  }
}
)");
  const std::vector<KernelPart> parts = cut_kernels(loop, 1);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_EQ(parts[0].entries, std::vector<std::uint32_t>{1});
  EXPECT_EQ(parts[1].entries, std::vector<std::uint32_t>{0});
  EXPECT_EQ(parts[1].loop.body.size(), 3U);
  for (const KernelPart& part : parts) EXPECT_TRUE(verify(part.loop).ok()) << print(part.loop);
}

}  // namespace
}  // namespace heddle::jit
