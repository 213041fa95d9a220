// Where kernels are cut. That those cut do what the whole one does is for the random tests.
#include <gtest/gtest.h>

#include <string>

#include "jit/code/kernels.hpp"
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

// J9: all parts compute scalars, and the first part runs other statements: where these write what
// scalars read, they are kernels of their own, and parallel loops keep their marks
TEST(CutTest, ScalarsAreApartFromParallelLoops) {
  const std::string loop = "  parallel i9 in 0..8 {\n    t2[i9] = t1[i9]\n  }\n";
  const std::string sum =
      "  let x0: f32 = t0[0]\n  for i0 in 0..4 {\n    x0 = add.f32(x0, t1[i0])\n  }\n";
  const auto shape = [](const std::string& body) {
    std::string kernels;
    for (const KernelPart& part :
         cut_kernels(parse_loop("heddle-loop 1\nbuffer t0 inout f32[8]\nbuffer t1 input f32[8]\n"
                                "buffer t2 output f32[9]\nkernel {\n" +
                                body + "}\n"),
                     kernel_nodes_max)) {
      EXPECT_TRUE(verify(part.loop).ok()) << print(part.loop);
      for (const StmtPtr& stmt : part.loop.body)
        kernels += stmt->kind != StmtKind::loop       ? '.'
                   : stmt->mark == LoopMark::parallel ? 'p'
                                                      : 'f';
      kernels += ' ';
    }
    return kernels;
  };
  EXPECT_EQ(shape(sum + "  t0[0] = x0\n" + loop), ".f. p ");
  EXPECT_EQ(shape(loop + sum + "  t0[0] = x0\n"), "p .f. ");
  EXPECT_EQ(shape(sum + "  t0[1] = x0\n" + loop), ".f.p ") << "it reads no t0[1]";
  EXPECT_EQ(shape(sum + "  t0[1] = x0\n  for i1 in 0..8 {\n    t0[i1] = 1:f32\n  }\n" + loop),
            ".f.f p ");
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
