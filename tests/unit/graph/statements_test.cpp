// Graphs and statements with indices that say the same: one becomes the loops of the other.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <utility>

#include "heddle/graph_ops.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/lower.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/random_contraction.hpp"

namespace heddle::jit::testing {
namespace {

/// The scheduled loops, without names.
std::string loops_of(const Program& program) {
  return print(schedule(optimize(lower(program)), tiny_target(Isa::avx2)).loop);
}
std::string loops_of(const Graph& g, const Node& result) {
  g.finish({result});
  return loops_of(g.program().program);
}

// F3: what graphs become is as good as what is written by hand, since it is the same
TEST(StatementsTest, AreWhatGraphsBecome) {
  const Graph g("elements"), turned("turned"), sums("sums"), product("product"), layer("layer"),
      image("image");
  const Index i, j, k, n, o, c, u, v;
  const auto parameter = [](const Graph& graph, Dims dims) {
    return graph.parameter("p", {f32, std::move(dims)});
  };

  const Tensor a("a", f32, {40, 50}), b("b", f32, {40, 50}), row("row", f32, {50}),
      of_elements("out", f32, {40, 50});
  Program elements("elements");
  elements << (of_elements(i, j) = relu(a(i, j) * b(i, j) + row(j)));
  EXPECT_EQ(loops_of(g, relu(parameter(g, {40, 50}) * parameter(g, {40, 50}) + parameter(g, {50}))),
            loops_of(elements));

  const Tensor of_turned("out", f32, {50, 40});
  Program transposed("transposed");
  transposed << (of_turned(j, i) = a(i, j));
  EXPECT_EQ(loops_of(turned, transpose(parameter(turned, {40, 50}))), loops_of(transposed));

  const Tensor of_sums("out", f32, {50});
  Program columns("columns");
  columns << (of_sums(j) = sum(a(i, j)));
  EXPECT_EQ(loops_of(sums, sum(parameter(sums, {40, 50}), {0})), loops_of(columns));

  const Tensor w("w", f32, {50, 60}), of_product("out", f32, {40, 60}), bias("bias", f32, {60});
  Program products("products");
  products << (of_product(i, k) = sum(a(i, j) * w(j, k)));
  EXPECT_EQ(loops_of(product, matmul(parameter(product, {40, 50}), parameter(product, {50, 60}))),
            loops_of(products));

  const Tensor sum_of("sums", f32, {40, 60});
  Program layers("layers");
  layers << (sum_of(i, k) = sum(a(i, j) * w(j, k)))
         << (of_product(i, k) = relu(sum_of(i, k) + bias(k)));
  EXPECT_EQ(loops_of(layer, relu(matmul(parameter(layer, {40, 50}), parameter(layer, {50, 60})) +
                                 parameter(layer, {60}))),
            loops_of(layers));

  const Tensor x("x", f32, {2, 3, 18, 18}), filters("filters", f32, {8, 3, 3, 3}),
      of_image("out", f32, {2, 8, 16, 16});
  Program convolution("convolution");
  convolution << (of_image(n, o, i, j) = sum(x(n, c, i + u, j + v) * filters(o, c, u, v)));
  EXPECT_EQ(loops_of(image, conv(parameter(image, {2, 3, 18, 18}), parameter(image, {8, 3, 3, 3}))),
            loops_of(convolution));
}

// J9: as statements are, reductions along the first axes are read along rows, of truth values too,
// and where others follow
TEST(StatementsTest, ColumnsAreReadAlongRows) {
  const auto along_rows = [](const std::function<Node(const Node&)>& make) {
    const Graph g("columns");
    const std::string loops = loops_of(g, make(g.parameter("x", {f32, {6, 40, 150}})));
    std::size_t count = 0;
    for (std::size_t at = 0; (at = loops.find("columns at once, 4 rows", at)) != loops.npos; ++at)
      ++count;
    return count;
  };
  EXPECT_EQ(along_rows([](const Node& x) { return all(x > 0, {1}); }), 1U);
  EXPECT_EQ(along_rows([](const Node& x) { return any(x > 0, {0, 1}); }), 1U);
  EXPECT_EQ(along_rows([](const Node& x) { return argmax(x, 1); }), 2U);
  EXPECT_EQ(along_rows([](const Node& x) { return all(x > 0, {2}); }), 0U);
}

}  // namespace
}  // namespace heddle::jit::testing
