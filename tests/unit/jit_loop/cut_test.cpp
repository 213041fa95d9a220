// Where kernels are cut. That those cut do what the whole one does is for the random tests.
#include <gtest/gtest.h>

#include <string>

#include "jit/loop/rewrite.hpp"
#include "jit/loop/text.hpp"
#include "jit/loop/verify.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/random_contraction.hpp"

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

// J7: compilers see every step of an operation: dear ones fill a kernel sooner than cheap ones
TEST(CutTest, DearOperationsCountForMore) {
  const auto parts_of = [](const std::string& op) {
    std::string text = "heddle-loop 1\nbuffer t0 output f32[100]\nkernel {\n";
    for (int k = 0; k < 100; ++k) {
      text += "  for i" + std::to_string(k) + " in " + std::to_string(k) + "..100 {\n    t0[i" +
              std::to_string(k) + "] = " + op + ".f32(t0[i" + std::to_string(k) + "])\n  }\n";
    }
    return cut_kernels(parse_loop(text + "}\n"), 600).size();
  };
  EXPECT_EQ(parts_of("neg"), 1U);
  EXPECT_GT(parts_of("tanh"), 1U);
}

// J9: local blocks of one nest share a stack with those of no other: all are scheduled, and kernels
// have no more than one stack holds
TEST(CutTest, EachNestHasTheStackForItself) {
  constexpr int nests = 100;
  Program program("many");
  for (int k = 0; k < nests; ++k) {
    const Tensor a("a", f32, {37 + k, 33}), b("b", f32, {33, 51}), c("c", f32, {37 + k, 51});
    const Index i, j, t;
    program << (c(i, j) = sum(a(i, t) * b(t, j)));
  }
  const Lowered after = schedule(optimize(lower(program)), testing::tiny_target(Isa::avx512));
  int contractions = 0;
  walk(after.loop.body, [&](const Stmt& stmt) {
    const bool is_comment = stmt.kind == StmtKind::comment;
    contractions += is_comment && stmt.text.starts_with("contraction") ? 1 : 0;
  });
  EXPECT_EQ(contractions, nests);
  const std::vector<KernelPart> parts = cut_kernels(after.loop, uncut - 1);
  EXPECT_GT(parts.size(), 1u);
  for (const KernelPart& part : parts) {
    std::int64_t bytes = 0;
    walk(part.loop.body, [&](const Stmt& stmt) {
      if (stmt.kind == StmtKind::declare && !stmt.dims.empty())
        bytes += ArrayType{stmt.value->dtype, stmt.dims}.num_bytes().value();
    });
    EXPECT_LE(bytes, block_bytes_max);
  }
}

}  // namespace
}  // namespace heddle::jit
