// Sums of rows whose terms are costly functions.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

/// The scratch for terms; none: sums compute their terms themselves.
Dims terms_apart(const Program& program) {
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  const auto found = std::ranges::find(made.tensors, "terms of rows", &Tensor::label);
  return found == made.tensors.end() ? Dims{} : found->dims();
}

// J9: terms are computed as elementwise code is, beside other functions of the row; a row is kept
TEST(CostlyTermsTest, AreOfARow) {
  const Tensor x("x", f32, {9, 70}), y("y", f32, {9, 70}), sums("sums", f32, {9}),
      z("z", f32, {9, 70});
  const Index i, k;
  Program program("sums");
  program << (sums(i) = sum(tanh(x(i, k)) * y(i, k))) << (z(i, k) = exp(x(i, k)));
  EXPECT_EQ(terms_apart(program), (Dims{1, 70}));
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  std::int64_t nests = 0, together = 0;
  for (const StmtPtr& nest : made.loop.body) nests += nest->kind == StmtKind::loop ? 1 : 0;
  walk(made.loop.body, [&](const Stmt& stmt) {
    const bool lanes = stmt.kind == StmtKind::loop && stmt.mark == LoopMark::lanes;
    together += lanes && stmt.body.size() == 2 ? 1 : 0;
  });
  EXPECT_EQ(nests, 1) << print(made.loop);
  EXPECT_GT(together, 0) << print(made.loop);
}

// B3: results are those of the loops as they were
TEST(CostlyTermsTest, KeepResults) {
  const Tensor x("x", f32, {9, 70}), sums("sums", f32, {9}), least("least", f32, {9});
  const Index i, k;
  Program program("sums");
  program << (sums(i) = sum(exp(x(i, k)))) << (least(i) = minimum(exp(x(i, k))));
  const Lowered plain = optimize(lower(program));
  const Lowered made = schedule(plain, with_isa(native_target(), Isa::avx512));
  const ScheduleStep without[] = {ScheduleStep::fuse};
  const Lowered inside = schedule(plain, with_isa(native_target(), Isa::avx512), without);
  EXPECT_EQ(sum_orders(made.loop), sum_orders(inside.loop));
  std::vector<HostArray> found, expected;
  for (const BufferDecl& each : made.loop.buffers) found.push_back(small_numbers(each.type, 1));
  for (const BufferDecl& each : inside.loop.buffers)
    expected.push_back(small_numbers(each.type, 1));
  interpret(made.loop, found);
  interpret(inside.loop, expected);
  for (std::size_t at = 0; at < plain.loop.buffers.size(); ++at)
    EXPECT_TRUE(same_elements(found[at], expected[at])) << at;
}

// J9: rows beyond the first-level cache, short rows, cheap terms and terms of another place stay
TEST(CostlyTermsTest, OthersStay) {
  const auto sums_of = [](std::int64_t count, const auto& term) {
    const Tensor x("x", f32, {9, count}), sums("sums", f32, {9});
    const Index i(9), k;
    Program program("sums");
    program << (sums(i) = sum(term(x, i, k)));
    return program;
  };
  const auto costly = [](const Tensor& x, const Index& i, const Index& k) { return tanh(x(i, k)); };
  EXPECT_EQ(terms_apart(sums_of(64, costly)), (Dims{1, 64}));
  EXPECT_EQ(terms_apart(sums_of(63, costly)), Dims{});
  EXPECT_EQ(terms_apart(sums_of(1 << 20, costly)), Dims{});
  EXPECT_EQ(terms_apart(sums_of(64, [](const Tensor& x, const Index& i,
                                       const Index& k) { return x(i, k) * x(i, k); })),
            Dims{});
}

}  // namespace
}  // namespace heddle::jit::testing
