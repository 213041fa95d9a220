// Chains of costly functions, one function of several vectors at a time.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

bool is_link(Op op) { return op == Op::exp || op == Op::log || op == Op::tanh; }

/// The most and all of the costly functions that statements of lanes loops compute for each
/// element.
std::pair<std::int64_t, std::int64_t> links_of(const Block& body) {
  std::int64_t most = 0, all = 0;
  walk(body, [&](const Stmt& stmt) {
    if (stmt.kind != StmtKind::loop || stmt.mark != LoopMark::lanes) return;
    std::int64_t count = 0;
    walk_values(stmt.body,
                [&](const Value& v) { count += v.kind == ValueKind::op && is_link(v.op) ? 1 : 0; });
    most = std::max(most, count);
    all += count;
  });
  return {most, all};
}
Block scheduled_body(const Program& program) {
  return schedule(optimize(lower(program)), tiny_target(Isa::avx2)).loop.body;
}
/// The same of the schedule, whose results are those without a schedule.
std::pair<std::int64_t, std::int64_t> links(const Program& program) {
  expect_unchanged(program);
  return links_of(scheduled_body(program));
}

constexpr std::int64_t count = 32;  // four vectors of AVX2
using Links = std::pair<std::int64_t, std::int64_t>;

// J9: a lanes loop has one link of the chain
TEST(StagesTest, ChainsAreTakenApart) {
  const Tensor x("x", f32, {count}), y("y", f32, {count});
  const Index i;
  Program mish("mish"), alone("alone"), beside("beside");
  mish << (y(i) = x(i) * tanh(log(exp(x(i)) + 1)));
  EXPECT_EQ(links(mish), Links(1, 3));
  alone << (y(i) = exp(x(i)) + 1);
  EXPECT_EQ(links(alone), Links(1, 1));
  beside << (y(i) = exp(x(i)) + tanh(-x(i)));
  EXPECT_EQ(links(beside), Links(2, 2));
}

// J9: sums of columns, in registers and beyond them, take the chains of their terms apart
TEST(StagesTest, TermsOfColumnsAreTakenApart) {
  for (const std::int64_t columns : {count, 40 * count}) {
    const Tensor x("x", f32, {5, columns}), y("y", f32, {columns});
    const Index i, k;
    Program sums("sums"), twice("twice"), one("one");
    sums << (y(i) += tanh(exp(x(k, i))));
    EXPECT_EQ(links(sums).first, columns == count ? 1 : 4) << columns;
    twice << (y(i) += tanh(exp(x(k, i))) * 2);
    EXPECT_EQ(links(twice).first, 1) << "a contraction" << columns;
    one << (y(i) += exp(x(k, i)));
    EXPECT_EQ(links(one).first, columns == count ? 1 : 4) << columns;
  }
}

// J9: what is stored on the way is read from there by nothing in the loop
TEST(StagesTest, StoredElementsAreTakenApart) {
  const Tensor x("x", f32, {count}), y("y", f32, {count}), z("z", f32, {count}),
      t("t", f32, {count});
  t.set_mode(MemoryMode::never_virtual);
  const Index i;
  Program stored("stored");
  stored << (t(i) = tanh(exp(x(i)))) << (y(i) = t(i) + x(i))
         << (z(i) = t(count - 1 - Subscript(i)));
  EXPECT_EQ(links(stored), Links(1, 2));
}

// J9: what several links read is computed once, and cheap values again
TEST(StagesTest, ValuesOfSeveralLinksAreComputedOnce) {
  const Tensor x("x", f32, {count}), y("y", f32, {count});
  const Index i;
  Program shared("shared");
  const Expr cheap = x(i) + 1, polynomial = cheap * cheap * cheap * cheap * x(i),
             e = exp(polynomial + cheap);
  shared << (y(i) = e * polynomial * log(e + cheap) / (e + cheap));
  EXPECT_EQ(links(shared), Links(1, 2));
  std::int64_t products = 0;
  walk_values(scheduled_body(shared), [&](const Value& v) {
    products += v.kind == ValueKind::op && v.op == Op::mul ? 1 : 0;
  });
  EXPECT_EQ(products, 6);
}

// J9: loads behind a store of the same tensor stay there; a tensor may be changed in place
TEST(StagesTest, StoresStayInOrder) {
  const Tensor x("x", f32, {count}), y("y", f32, {count}), z("z", f32, {count});
  const Index i;
  Program behind("behind"), in_place("in_place");
  behind << (y(i) = exp(x(i)));
  behind << (z(i) = tanh(log(y(i))) + y(i));
  static_cast<void>(links(behind));
  in_place << (x(i) = tanh(exp(x(i))) * x(i));
  EXPECT_EQ(links(in_place), Links(1, 2));
}

// J9: so do loads, through locals too, before a store of the tensor that comes before their use
TEST(StagesTest, LoadsStayBeforeStores) {
  const Loop plain = parse_loop(
      "heddle-loop 1\nbuffer t0 inout f32[32]\nbuffer t1 output f32[32]\n"
      "kernel {\n  for i0 in 0..32 {\n    let x0: f32 = t0[i0]\n"
      "    let x1: f32 = add.f32(x0, 1:f32)\n    t0[i0] = tanh.f32(exp.f32(x0))\n"
      "    t1[i0] = add.f32(x1, 1:f32)\n  }\n}\n");
  Lowered lowered;
  for (const BufferDecl& each : plain.buffers)
    lowered.tensors.emplace_back("t", each.type.dtype, each.type.dims);
  lowered.interface = read_interface(plain);
  lowered.loop = plain;
  const Loop scheduled = schedule(lowered, tiny_target(Isa::avx2)).loop;
  std::vector<HostArray> wanted, found;
  for (std::size_t k = 0; k < 2; ++k) {
    wanted.push_back(small_numbers(plain.buffers[k].type, k));
    found.push_back(small_numbers(plain.buffers[k].type, k));
  }
  interpret(plain, wanted);
  interpret(scheduled, found);
  for (std::size_t k = 0; k < 2; ++k)
    EXPECT_TRUE(same_elements(wanted[k], found[k])) << print(scheduled);
}

}  // namespace
}  // namespace heddle::jit::testing
