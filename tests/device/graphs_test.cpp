// Compiled and executed graphs: F3 on every backend.
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/device/backends.hpp"

namespace heddle {
namespace {

using Integers = std::vector<std::int32_t>;

template <class T>
struct Dense {
  T weight, bias;
};
template <class T>
HEDDLE_TREE(Dense<T>, weight, bias)

class GraphsTest : public Conformance {
 protected:
  /// The results of a graph of i32 parameters for the given arguments.
  std::vector<Integers> run(const Graph& graph, const std::vector<Integers>& arguments) {
    const GraphProgram lowered = graph.program();
    const Routine routine = Context(device).link(backend.compile(lowered.program));
    for (std::size_t k = 0; k < arguments.size(); ++k) {
      if (routine.context().contains(lowered.parameters[k]))
        routine.context().write(lowered.parameters[k], arguments[k]);
    }
    routine.schedule();
    std::vector<Integers> results;
    for (const Tensor& result : lowered.results)
      results.push_back(routine.context().read<std::int32_t>(result));
    return results;
  }
};
HEDDLE_CONFORMANCE_SUITE(GraphsTest);

// F3: layout, products, sums and windows give the results of plain loops over the arguments
TEST_P(GraphsTest, GiveWhatLoopsGive) {
  const Graph g("kinds");
  const Node x = g.parameter("x", {i32, {2, 3}});
  const Node w = g.parameter("w", {i32, {3, 2}});
  g.finish({matmul(x, w) + 1, pad(x, 7, {{1, 0, 0}, {0, 1, 1}}), concatenate({x, transpose(w)}),
            cumsum(x, 1, {.reverse = true}), reshape(transpose(x), {2, 3}), cast(argmax(x, 1), i32),
            window_sum(x, {.size = {2}, .step = {1}, .dilation = {}})});
  const auto found = run(g, {{1, 5, 3, 4, 2, 6}, {1, 0, 2, 1, 0, 3}});
  EXPECT_EQ(found[0], (Integers{12, 15, 9, 21}));
  EXPECT_EQ(found[1], (Integers{7, 7, 7, 7, 7, 7, 1, 7, 5, 7, 3, 7, 4, 7, 2, 7, 6, 7}));
  EXPECT_EQ(found[2], (Integers{1, 5, 3, 4, 2, 6, 1, 2, 0, 0, 1, 3}));
  EXPECT_EQ(found[3], (Integers{9, 8, 3, 12, 8, 6}));
  EXPECT_EQ(found[4], (Integers{1, 4, 5, 2, 3, 6}));
  EXPECT_EQ(found[5], (Integers{1, 2}));
  EXPECT_EQ(found[6], (Integers{6, 8, 6, 8}));
}

// W4: sums over short axes, over neighbouring axes, over transposed axes and of 16-bit types
// neither stop growing nor drift: one sequential float sum of as many terms is wrong by some
// thousandths
TEST_P(GraphsTest, LongSumsStayExact) {
  constexpr std::int64_t many = 1 << 18;
  const Graph g("sums");
  const Node image = g.parameter("image", {f32, {512, 512, 3}});
  const Node halves = g.parameter("halves", {f16, {many, 2}});
  const Node shorts = g.parameter("shorts", {bf16, {2 * many}});
  g.finish({sum(image), sum(transpose(image)), sum(image, {1, 2}), sum(image, {0, 1}),
            sum(image * image, {0}), sum(cast(halves, f32), {0}), sum(cast(shorts, f32)),
            mean(image)});
  const GraphProgram lowered = g.program();
  const Routine routine = Context(device).link(backend.compile(lowered.program));
  routine.context().write(lowered.parameters[0], std::vector<float>(3 * many, 0.1F));
  routine.context().write(lowered.parameters[1], std::vector<Float16>(2 * many, Float16(0.1F)));
  routine.context().write(lowered.parameters[2], std::vector<BFloat16>(2 * many, BFloat16(0.1F)));
  routine.schedule();
  const double single = 0.1F, half = static_cast<float>(Float16(0.1F)),
               brief = static_cast<float>(BFloat16(0.1F));
  const double expected[] = {
      3 * many * single,     3 * many * single, 3 * 512 * single, many * single,
      512 * single * single, many * half,       2 * many * brief, single};
  for (std::size_t k = 0; k < std::size(expected); ++k) {
    for (const float found : routine.context().read<float>(lowered.results[k]))
      EXPECT_NEAR(found / expected[k], 1, 1e-5) << "result " << k;
  }
}

// W4, J13: running sums and scatters add in order, in the requested type
TEST_P(GraphsTest, RunningSumsMayBeAskedForInF64) {
  constexpr std::int64_t many = 1 << 18;
  const Graph g("running");
  const Node x = g.parameter("x", {f32, {many}});
  const Node wide = cast(x, f64), place = g.constant(0) * cast(x, i32);
  const Node none = broadcast_to(cast(g.constant(0), f64), {1});
  g.finish({slice(cumsum(x), 0, {many - 1, many}),
            slice(cast(cumsum(wide), f32), 0, {many - 1, many}),
            cast(scatter(none, {place}, wide, Scatter::add), f32)});
  const GraphProgram lowered = g.program();
  const Routine routine = Context(device).link(backend.compile(lowered.program));
  routine.context().write(lowered.parameters[0], std::vector<float>(many, 0.1F));
  routine.schedule();
  const auto error = [&](std::size_t result) {
    const float found = routine.context().read<float>(lowered.results[result])[0];
    return std::abs(found / (many * static_cast<double>(0.1F)) - 1);
  };
  EXPECT_GT(error(0), 1e-5) << "one f32 after the other";
  EXPECT_LT(error(1), 1e-7);
  EXPECT_LT(error(2), 1e-7);
}

// F3, J13: computed places, and updates in order
TEST_P(GraphsTest, ComputedPlaces) {
  const Graph g("places");
  const Node x = g.parameter("x", {i32, {4, 2}});
  const Node rows = g.parameter("rows", {i32, {3}});
  g.finish({take(x, rows), scatter(x * 0, {rows}, take(x, rows) + 1, Scatter::add),
            dynamic_update_slice(x, x * 2, {Operand(1), Operand(0)}),
            dynamic_slice(x, {Operand(sum(rows)), Operand(0)}, {1, 2})});
  const auto found = run(g, {{0, 1, 10, 11, 20, 21, 30, 31}, {2, 7, 2}});
  EXPECT_EQ(found[0], (Integers{20, 21, 30, 31, 20, 21}));
  EXPECT_EQ(found[1], (Integers{0, 0, 0, 0, 42, 44, 0, 0}));
  EXPECT_EQ(found[2], (Integers{0, 2, 20, 22, 40, 42, 60, 62}));
  EXPECT_EQ(found[3], (Integers{30, 31}));
}

// F3, J13: short rows sort by comparison, long rows by digits, top-k by blocks of rows
TEST_P(GraphsTest, Sorting) {
  constexpr std::int64_t count = 1000;
  const Graph g("order");
  const Node x = g.parameter("x", {i32, {2, 4}});
  const Node row = g.parameter("row", {i32, {count}});
  const TopK top = top_k(row, 3);
  g.finish({sort(x), sort({x, x * 0 + 1}, 0, 2, {.descending = true})[0], cast(argsort(x), i32),
            sort(row), top.values, cast(top.indices, i32),
            cast(searchsorted(sort(reshape(x, {-1})), x), i32)});
  Integers values, rising;
  for (std::int32_t k = 0; k < count; ++k) {
    values.push_back(k * 7 % 1000 - 500);
    rising.push_back(k - 500);
  }
  const auto found = run(g, {{3, -1, 2, -1, 0, 5, -7, 4}, values});
  EXPECT_EQ(found[0], (Integers{-1, -1, 2, 3, -7, 0, 4, 5}));
  EXPECT_EQ(found[1], (Integers{3, 5, 2, 4, 0, -1, -7, -1}));
  EXPECT_EQ(found[2], (Integers{1, 3, 2, 0, 2, 0, 3, 1}));
  EXPECT_EQ(found[3], rising);
  EXPECT_EQ(found[4], (Integers{499, 498, 497}));
  EXPECT_EQ(found[5], (Integers{857, 714, 571}));
  EXPECT_EQ(found[6], (Integers{5, 1, 4, 1, 3, 7, 0, 6}));
}

// F3, D3: arrays without elements and scalars
TEST_P(GraphsTest, EmptyArraysAndScalars) {
  const Graph g("edges");
  const Node x = g.parameter("x", {i32, {0, 3}});
  const Node s = g.parameter("s", {i32, {}});
  g.finish({sum(x, {0}) + s, concatenate({x, broadcast_to(s, {1, 3})}), transpose(x), s * s,
            matmul(transpose(x), x)});
  const auto found = run(g, {{}, {5}});
  EXPECT_EQ(found[0], (Integers{5, 5, 5}));
  EXPECT_EQ(found[1], (Integers{5, 5, 5}));
  EXPECT_EQ(found[2], Integers{});
  EXPECT_EQ(found[3], Integers{25});
  EXPECT_EQ(found[4], Integers(9, 0));
  const GraphProgram lowered = g.program();
  const Context context = Context(device).link(backend.compile(lowered.program)).context();
  EXPECT_FALSE(context.contains(lowered.parameters[0])) << "no element of it is read";
  EXPECT_TRUE(context.contains(lowered.parameters[1]));
}

// D10, B3: random bits are the same on every backend
TEST_P(GraphsTest, RandomBitsAreTheSameEverywhere) {
  const Graph g("random");
  const Node key = g.constant(std::uint64_t{42}, u64);
  g.finish({cast(random_bits(fold_in(key, 1), {4}) % 1'000'000, i32)});
  EXPECT_EQ(run(g, {})[0], (Integers{810757, 424228, 811105, 923030}));
}

// F1, F3, G2, G15: a traced function of trees: flat lists as inputs and outputs, and a second trace
// gives the same code
TEST_P(GraphsTest, TracedFunctionsTakeAndGiveTrees) {
  using Layers = std::vector<Dense<ArrayType>>;
  const auto apply = [](const std::vector<Dense<Node>>& layers, Node x) {
    std::map<std::string, Node> results;
    for (const Dense<Node>& layer : layers) x = matmul(x, layer.weight) + layer.bias;
    results["doubled"] = x * 2;
    results["twice"] = results["doubled"];
    results["last"] = layers.back().bias;
    return results;
  };
  const Layers types{{{i32, {2, 3}}, {i32, {3}}}, {{i32, {3, 1}}, {i32, {1}}}};
  const auto traced = trace("layers", apply, types, ArrayType{i32, {2, 2}});
  const auto arguments = traced.flatten_arguments<Integers>(
      std::vector<Dense<Integers>>{{{1, 0, 2, 0, 1, 3}, {1, 1, 1}}, {{1, 2, 3}, {7}}},
      Integers{1, 2, 3, 4});
  const auto found = traced.unflatten_results(run(traced.graph(), arguments));
  EXPECT_EQ(found.at("doubled"), (Integers{84, 156}));
  EXPECT_EQ(found.at("twice"), found.at("doubled"));
  EXPECT_EQ(found.at("last"), Integers{7});
  const auto again = trace("layers", apply, types, ArrayType{i32, {2, 2}});
  EXPECT_NE(again.name(), traced.name());
  const Code first = backend.compile(traced.program().program);
  EXPECT_EQ(backend.compile(again.program().program).hash(), first.hash());
}

}  // namespace
}  // namespace heddle
