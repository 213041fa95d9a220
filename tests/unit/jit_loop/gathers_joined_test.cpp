// Messages along the edges of a graph: gathered rows that a scatter adds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>

#include "unit/jit_loop/scheduled.hpp"

namespace heddle::jit::testing {
namespace {

constexpr std::int64_t edge_count = 60, node_count = 9;

struct Edges {
  const Tensor from{"from", i64, {edge_count}}, to{"to", i64, {edge_count}},
      w{"w", f32, {edge_count}}, x{"x", f32, {node_count, 8}}, sums{"sums", f32, {node_count, 8}},
      messages{"messages", f32, {edge_count, 8}}, y{"y", f32, {edge_count}};
  const Index e, k;

  Edges() { Tensor(messages).set_mode(MemoryMode::never_virtual); }
};

/// Whether the messages are in no memory.
bool are_joined(const Program& program) {
  expect_unchanged(program);
  const Lowered made = schedule(optimize(lower(program)), with_isa(native_target(), Isa::avx512));
  const auto messages = std::ranges::find(made.tensors, "messages", &Tensor::label);
  EXPECT_NE(messages, made.tensors.end());
  return messages != made.tensors.end() && messages->type().num_elements() == 1;
}

// J9: a scatter reads rows where they come from, with what it multiplies them by
TEST(GathersJoinedTest, ScattersReadTheirRows) {
  const Edges g;
  Program plain("plain"), weighted("weighted");
  plain << (g.messages(g.e, g.k) = g.x(at(g.from(g.e)), g.k))
        << (g.sums(at(g.to(g.e)), g.k) += g.messages(g.e, g.k));
  EXPECT_TRUE(are_joined(plain));
  weighted << (g.messages(g.e, g.k) = g.x(at(g.from(g.e)), g.k))
           << (g.sums(at(g.to(g.e)), g.k) += g.messages(g.e, g.k) * g.w(g.e));
  EXPECT_TRUE(are_joined(weighted));
}

// D9: rows that something else reads, that the scatter changes, and that are computed, stay
TEST(GathersJoinedTest, OthersStay) {
  const Edges g;
  Program twice("twice"), changed("changed"), between("between"), other("other"), dear("dear");
  twice << (g.messages(g.e, g.k) = g.x(at(g.from(g.e)), g.k))
        << (g.sums(at(g.to(g.e)), g.k) += g.messages(g.e, g.k))
        << (g.y(g.e) = sum(g.messages(g.e, g.k)));
  EXPECT_FALSE(are_joined(twice));
  changed << (g.messages(g.e, g.k) = g.x(at(g.from(g.e)), g.k))
          << (g.x(at(g.to(g.e)), g.k) += g.messages(g.e, g.k));
  EXPECT_FALSE(are_joined(changed));
  between << (g.messages(g.e, g.k) = g.x(at(g.from(g.e)), g.k)) << (g.from(g.e) = g.to(g.e))
          << (g.sums(at(g.to(g.e)), g.k) += g.messages(g.e, g.k));
  EXPECT_FALSE(are_joined(between));
  other << (g.messages(g.e, g.k) = g.x(at(g.from(g.e)), g.k))
        << (g.sums(at(g.to(g.e)), g.k) += g.messages(edge_count - 1 - Subscript(g.e), g.k));
  EXPECT_FALSE(are_joined(other));
  const Tensor wide("wide", f32, {8, 20}), sums("sums", f32, {node_count, 20});
  const Index j;
  Program product("product");
  product << (g.messages(g.e, g.k) = g.x(at(g.from(g.e)), g.k) * g.w(g.e))
          << (sums(at(g.to(g.e)), j) += g.messages(g.e, g.k) * wide(g.k, j));
  EXPECT_FALSE(are_joined(product)) << "each row is read for many elements";
  dear << (g.messages(g.e, g.k) = exp(g.x(at(g.from(g.e)), g.k)))
       << (g.sums(at(g.to(g.e)), g.k) += g.messages(g.e, g.k));
  EXPECT_FALSE(are_joined(dear));
}

}  // namespace
}  // namespace heddle::jit::testing
