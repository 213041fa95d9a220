// Networks of equal layers: what they take to compile.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>

#include "heddle/graph.hpp"
#include "heddle/graph_ops.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/random_contraction.hpp"

namespace heddle::jit::testing {
namespace {

/// Norm, a product with an epilogue, a product that adds.
Graph network(int layers) {
  const Graph g("network");
  Node x = g.parameter("x", {f32, {64, 64}});
  for (int k = 0; k < layers; ++k) {
    const auto scope = g.scope("layers/" + std::to_string(k));
    const Node scale = g.parameter("scale", {f32, {64}}), up = g.parameter("up", {f32, {64, 128}}),
               down = g.parameter("down", {f32, {128, 64}});
    x = x + matmul(silu(matmul(rms_norm(x, scale), up)), down);
  }
  g.finish({x});
  return g;
}

struct Compiled {
  std::size_t nodes = 0, nodes_of_texts = 0;  // of all kernels; of each text once
};

Compiled compiled(int layers) {
  const Lowered lowered = schedule(optimize(lower(network(layers).program().program)),
                                   tiny_target(Isa::avx2));
  std::map<std::string, std::size_t> texts;
  Compiled result;
  for (const KernelPart& part : cut_kernels(lowered.loop, 2'000)) {
    const std::size_t nodes = nodes_of(part.loop);
    result.nodes += nodes;
    texts[hash(part.loop)] = nodes;
  }
  for (const auto& [text, nodes] : texts) result.nodes_of_texts += nodes;
  return result;
}

// F3: what the compiler is given of many layers is little more than of one, and the last ones are
// scheduled as the first ones are
TEST(LayersTest, EqualOnesAreCompiledOnce) {
  const Compiled one = compiled(1), two = compiled(2), many = compiled(24);
  EXPECT_GE(many.nodes, 24 * one.nodes * 9 / 10);
  EXPECT_EQ(many.nodes - two.nodes, 22 * (many.nodes / 24));
  EXPECT_LE(many.nodes_of_texts, one.nodes_of_texts * 13 / 10);
}

}  // namespace
}  // namespace heddle::jit::testing
