// Which loops run in parts, where kernels are cut for that, and that parts in any order compute
// what the loops compute. HEDDLE_TEST_SEEDS=n looks at n programs.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "jit/code/memory_plan.hpp"
#include "jit/loop/cost.hpp"
#include "jit/loop/own_scratch.hpp"
#include "jit/loop/text.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/parallel.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/loop_interpreter.hpp"
#include "support/parsed.hpp"
#include "support/random_contraction.hpp"
#include "support/seeds.hpp"
#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

Loop loop_of(const std::string& body) {
  return parse_loop(R"(heddle-loop 1
buffer t0 inout f32[8,8]
buffer t1 input f32[8,8]
buffer t2 scratch f32[8]
buffer t3 output f32[8,8]
kernel {
)" + body + "}\n");
}

/// Variables of loops that are marked, where parts are as small as may be.
std::vector<VarId> marked(const std::string& body, std::int64_t part_bytes = 1) {
  std::vector<VarId> vars;
  for (const StmtPtr& stmt : mark_parallel(loop_of(body), part_bytes)) {
    if (stmt->mark == LoopMark::parallel) vars.push_back(stmt->var);
  }
  return vars;
}

const std::string fill = "for i0 in 0..8 { for i1 in 0..8 { t0[i0, i1] = t1[i0, i1] } }\n";
const std::string row_by_row = R"(for i0 in 0..8 {
    for i1 in 0..8 { t2[i1] = neg.f32(t1[i0, i1]) }
    for i2 in 0..8 { t3[i0, i2] = add.f32(t2[i2], t2[0]) }
  }
)";

// J5, S19: iterations that share nothing, of loops of the top level with work for two parts
TEST(ParallelTest, MarksWhatSharesNothing) {
  EXPECT_THAT(marked(fill), ElementsAre(0));
  EXPECT_THAT(marked(fill, 200), ElementsAre(0));  // 512 bytes
  EXPECT_THAT(marked(fill, 300), IsEmpty());
  EXPECT_THAT(marked("for i0 in 0..7 { t0[i0, 0] = t0[i0 + 1, 0] }\n"), IsEmpty());
  EXPECT_THAT(marked("for i0 in 0..8 { for i1 in 0..8 { t0[0, i1] = t1[i0, i1] } }\n"), IsEmpty());
  EXPECT_THAT(marked("for i0 in 0..1 { for i1 in 0..8 { t0[i0, i1] = t1[i0, i1] } }\n"), IsEmpty());
  EXPECT_THAT(marked("let x0: f32 = 0:f32\nfor i0 in 0..8 { x0 = add.f32(x0, t1[i0, 0]) }\n"),
              IsEmpty());
}

// J5: scratch that each iteration writes before it reads is each part's own
TEST(ParallelTest, PartsHaveTheirOwnScratch) {
  EXPECT_EQ(own_scratch(loop_of(row_by_row)), std::set<BufferId>{2});
  EXPECT_THAT(marked(row_by_row), ElementsAre(0));
  const std::string kept = "for i3 in 0..8 { t0[i3, 0] = t2[i3] }\n";  // of the last iteration
  EXPECT_THAT(own_scratch(loop_of(row_by_row + kept)), IsEmpty());
  EXPECT_THAT(marked(row_by_row + kept), ElementsAre(3));
  const std::string read_first =
      "for i0 in 0..8 { for i1 in 0..8 { t3[i0, i1] = t2[i1]\n t2[i1] = t1[i0, i1] } }\n";
  EXPECT_THAT(marked(read_first), IsEmpty());
  const std::string some =
      "for i0 in 0..8 { for i1 in 0..7 { t2[i1] = t1[i0, i1] }\n t3[i0, 0] = t2[7] }\n";
  EXPECT_THAT(marked(some), IsEmpty());
  // Written in two pieces, and again and again
  const std::string pieces = R"(for i0 in 0..8 {
    for i1 in 0..5 { t2[i1] = neg.f32(t1[i0, i1]) }
    for i2 in 0..3 { t2[i2 + 5] = 1:f32 }
    for i3 in 0..8 { t3[i0, i3] = t2[i3] }
  }
)";
  EXPECT_THAT(marked(pieces), ElementsAre(0));
  const std::string repeated = R"(for i0 in 0..8 {
    for i1 in 0..3 {
      for i2 in 0..8 { t2[i2] = t1[i1, i2] }
      for i3 in 0..8 { t3[i0, i3] = add.f32(t3[i0, i3], t2[i3]) }
    }
  }
)";
  EXPECT_THAT(marked(repeated), ElementsAre(0));
  const std::string of_the_one_before = R"(for i0 in 0..8 {
    for i1 in 0..3 {
      for i3 in 0..8 { t3[i0, i3] = add.f32(t3[i0, i3], t2[i3]) }
      for i2 in 0..8 { t2[i2] = t1[i1, i2] }
    }
  }
)";
  EXPECT_THAT(marked(of_the_one_before), IsEmpty());
  const std::string piece_by_piece = R"(for i0 in 0..8 {
    for i1 in 0..8 {
      t2[i1] = t1[i0, i1]
      t3[i0, i1] = t2[7]
    }
  }
)";
  EXPECT_THAT(marked(piece_by_piece), IsEmpty());
}

// J9: groups of a GPU share scratch of which parts of a CPU have one each
TEST(ParallelTest, KernelsAreCutWhereGroupsWouldMeetInScratch) {
  const Loop loop = parsed(R"(buffer t0 input f32[9,8]
buffer t1 output f32[8,8]
buffer t2 output f32[8,8]
buffer t3 scratch f32[8]
kernel {
  parallel i0 in 0..8 {
    for i1 in 0..8 { t3[i1] = t0[i0, i1] }
    for i2 in 0..8 { t1[i0, i2] = t3[i2] }
  }
  parallel i3 in 0..8 {
    for i4 in 0..8 { t3[i4] = mul.f32(t0[i3, i4], 2:f32) }
    for i5 in 0..8 { t2[i3, i5] = t3[i5] }
  }
}
)");
  EXPECT_THAT(cut_kernels(loop, uncut - 1), SizeIs(1));
  EXPECT_THAT(cut_kernels(loop, uncut - 1, ScratchOf::all_parts), SizeIs(2));
  const std::vector<KernelPart> whole = cut_kernels(loop, uncut, ScratchOf::all_parts);
  EXPECT_EQ(print(whole[0].loop).find("parallel"), std::string::npos);
}

// J5: parts do not wait for each other: what follows a parallel loop and meets it is a kernel of
// its own
TEST(ParallelTest, KernelsAreCutWherePartsWouldMeet) {
  const auto kernels = [](const std::string& body) {
    Loop loop = loop_of(body);
    loop.body = mark_parallel(loop, 1);
    std::vector<std::uint32_t> parts;
    for (const KernelPart& part : cut_kernels(loop, uncut - 1))
      parts.push_back(parts_of(part.loop, 1));
    return parts;
  };
  EXPECT_THAT(kernels(fill), ElementsAre(8));
  const std::string later = "for i4 in 0..8 { for i5 in 0..8 { t3[i4, i5] = t0[i5, i4] } }\n";
  EXPECT_THAT(kernels(fill + later), ElementsAre(8, 8));
  // The same rows, or others.
  const std::string halves = R"(for i0 in 0..4 { for i1 in 0..8 { t0[i0, i1] = t1[i0, i1] } }
  for i2 in 0..4 { for i3 in 0..8 { t0[i2 + 4, i3] = t1[i2 + 4, i3] } }
)";
  EXPECT_THAT(kernels(halves), ElementsAre(4));
  EXPECT_THAT(kernels(halves + "t0[3, 0] = 1:f32\n"), ElementsAre(4, 1));
  // A donated input may have the memory of an output.
  const std::string crossed = R"(for i0 in 0..8 { for i1 in 0..8 { t0[i0, i1] = t1[i0, i1] } }
  for i2 in 0..8 { for i3 in 0..8 { t3[i2, i3] = 1:f32 } }
)";
  EXPECT_THAT(kernels(crossed), ElementsAre(8, 8));
  // What stays together by a local, and meets, is not shared out.
  EXPECT_THAT(kernels("let x0: f32 = t0[0, 0]\n"
                      "for i0 in 0..8 { for i1 in 0..8 { t0[i0, i1] = x0 } }\n"),
              ElementsAre(1));
  // Nor what reads a scalar that each part has of what one part stores.
  EXPECT_THAT(kernels("let x0: f32 = 1:f32\nt0[0, 0] = x0\nlet x1: f32 = t0[0, 0]\n"
                      "for i0 in 0..8 { for i1 in 0..8 { t3[i0, i1] = x1 } }\n"
                      "t0[0, 1] = x0\n"),
              ElementsAre(1));
  // Nor what reads a local that one part fills.
  EXPECT_THAT(kernels("let x0: f32[8] = 0:f32\n"
                      "for i0 in 0..8 { x0[i0] = t1[i0, 0] }\n"
                      "for i1 in 0..8 { for i2 in 0..8 { t0[i1, i2] = x0[i1] } }\n"),
              ElementsAre(1));
}

// J5: parts are at several statements at once, whose scratch shares no bytes then
TEST(ParallelTest, ScratchOfAKernelInPartsIsApart) {
  Signature signature;
  const Loop two = parse_loop(R"(heddle-loop 1
buffer t0 scratch f32[8]
buffer t1 scratch f32[8]
kernel {
  for i0 in 0..8 { t0[i0] = 1:f32 }
  for i1 in 0..8 { t1[i1] = 1:f32 }
}
)");
  signature.entries.resize(2);
  for (SignatureEntry& entry : signature.entries) {
    entry.role = Role::scratch;
    entry.type = {f32, {8}};
  }
  for (const std::uint32_t parts : {1U, 2U}) {
    KernelStep step{VerifiedLoop(two), nullptr, {0, 1}, {}};
    step.parts = parts;
    const Step steps[] = {step};
    EXPECT_EQ(plan_scratch(signature, steps).bytes, 64U * parts);
  }
}

/// How much of what a product does is done in parts, of 1.
double share_in_parts(const Program& program) {
  const Loop loop =
      schedule(optimize(lower(program)), *Target::parse("avx512 32768 1048576 33554432")).loop;
  std::uint64_t all = 0, in_parts = 0;
  for (const StmtPtr& stmt : loop.body) {
    const std::uint64_t work = cost_of(loop, stmt).operations;
    all += work;
    if (stmt->mark == LoopMark::parallel) in_parts += work;
  }
  return static_cast<double>(in_parts) / static_cast<double>(all);
}

// J5: however many blocks of terms there are, on whichever side blocks are cut
TEST(ParallelTest, ProductsRunInParts) {
  struct Extents {
    std::int64_t rows, terms, lanes;
  };
  for (const auto& [rows, terms, lanes] : {Extents{777, 1111, 333}, Extents{100, 3000, 50},
                                           Extents{1024, 1024, 1024}, Extents{64, 20000, 48}}) {
    const Tensor a("a", f32, {rows, terms}), b("b", f32, {terms, lanes}),
        c("c", f32, {rows, lanes});
    const Index i, j, k;
    EXPECT_GT(share_in_parts(Program("product") << (c(i, j) += a(i, k) * b(k, j))), 0.9)
        << rows << " x " << terms << " x " << lanes;
  }
  const Tensor x("x", f32, {4, 512, 16, 16}), w("w", f32, {512, 512, 3, 3}),
      y("y", f32, {4, 512, 14, 14});
  const Index n, o, c, i, j, r, s;
  EXPECT_GT(share_in_parts(Program("conv")
                           << (y(n, o, i, j) = sum(x(n, c, i + r, j + s) * w(o, c, r, s)))),
            0.9);
}

/// Kernels cut and run in parts, in an order that the seed says, against the plain loops.
void expect_parts_equal_plain_loops(Program (*make)(std::uint64_t seed), std::uint64_t count) {
  std::size_t in_parts = 0, own = 0;
  for (std::uint64_t seed = 1; seed <= count; ++seed) {
    const Lowered before = optimize(lower(make(seed)));
    Target target = tiny_target(seed % 2 == 0 ? Isa::avx2 : Isa::avx512_vnni);
    target.profile.part_bytes = target.sum_bytes = 1;
    const Lowered after = schedule(before, target);
    std::vector<HostArray> expected, found;
    for (std::size_t k = 0; k < after.loop.buffers.size(); ++k) {
      found.push_back(small_numbers(after.loop.buffers[k].type, seed + k));
      if (k < before.loop.buffers.size())
        expected.push_back(small_numbers(before.loop.buffers[k].type, seed + k));
    }
    interpret(before.loop, expected);
    std::vector<std::int64_t> order(2 + seed % 4);
    std::iota(order.begin(), order.end(), 0);
    std::ranges::shuffle(order, std::mt19937_64(seed));
    for (const KernelPart& part : cut_kernels(after.loop, 10'000)) {
      std::vector<HostArray> buffers;
      for (const std::uint32_t entry : part.entries) buffers.push_back(found[entry]);
      interpret_in_parts(part.loop, buffers, {}, order);
      in_parts += parts_of(part.loop, 1) > 1 ? 1 : 0;
      own += own_scratch(part.loop).size();
    }
    for (std::size_t k = 0; k < expected.size(); ++k) {
      if (before.loop.buffers[k].role == Role::scratch) continue;
      ASSERT_TRUE(same_elements(expected[k], found[k])) << "seed " << seed << " t" << k << "\n"
                                                        << print(before.loop) << print(after.loop);
    }
  }
  EXPECT_GT(in_parts, count / 2);
  if (make == random_contraction) {
    EXPECT_GT(own, count / 4);
  }
}

// B3, S19, J9
TEST(ParallelTest, PartsOfContractionsEqualPlainLoops) {
  expect_parts_equal_plain_loops(random_contraction, test::seeds(120));
}
// B3, S19, J9
TEST(ParallelTest, PartsOfRowsEqualPlainLoops) {
  expect_parts_equal_plain_loops(random_rows, test::seeds(120));
}
// B3, S19, J9
TEST(ParallelTest, PartsOfTransposesEqualPlainLoops) {
  expect_parts_equal_plain_loops(random_transpose, test::seeds(120));
}

}  // namespace
}  // namespace heddle::jit::testing
