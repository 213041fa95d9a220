// The floating-point environment of the thread that builds a graph is nothing to the graph.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "heddle/trace.hpp"
#include "tests/device/host_floating.hpp"

namespace heddle {
namespace {

/// Operations that make numbers of their own, and constants of each type.
std::vector<Node> numbers(const Graph& graph, const Node& x) {
  const double boundless = std::numeric_limits<double>::infinity();
  const volatile float tiny = 1e-40F;
  const Node key = graph.constant(std::uint64_t{7}, u64);
  std::vector<Node> made{x * 0.1,
                         x + tiny,
                         x - boundless,
                         max(x, std::nan("")),
                         pow(x, -1.1),
                         x + graph.constant(3e38F) * 2,
                         x + cast(graph.constant(1e300, f64), f32),
                         x + graph.constant(1.0F) / graph.constant(0.0F),
                         clamp(x, 0.1, 0.7),
                         fma(x, 0.1, 0.3),
                         where(x < 0.1, x, 1e-3),
                         cast(x, f64) * 0.1,
                         cast(x, f16) * 0.1,
                         cast(x, i32) * 0.1,
                         mean(x),
                         variance(x),
                         softmax(x),
                         log_softmax(x),
                         logsumexp(x),
                         layer_norm(x, x, x),
                         rms_norm(x, x, 1e-6),
                         gelu(x),
                         sigmoid(x),
                         silu(x),
                         dropout(x, key, 0.1),
                         attention(x, x, x),
                         random_uniform(key, {3}),
                         random_normal(key, {3}),
                         bernoulli(key, 0.3, {3}),
                         categorical(key, x),
                         maximum(x),
                         minimum(x),
                         cumsum(x, 0),
                         argmax(x),
                         top_k(x, 1).values};
  for (const DType dtype : {f16, bf16, f32, f64}) {
    made.push_back(graph.constant(0.1, dtype));
    made.push_back(graph.constant(16777217, dtype == f16 ? f32 : dtype));
    made.push_back(graph.constant(tiny, dtype));
  }
  for (const DType dtype : {u8, i8, u16, i16, i32, u32, i64, u64})
    made.push_back(graph.constant(100.0, dtype));
  made.push_back(graph.constant(1.0, bool_));
  return made;
}

std::string text_of_graph() {
  const Graph graph("numbers");
  const Node x = graph.parameter("x", {f32, {3, 3}});
  graph.finish(numbers(graph, x));
  return graph.to_string() + graph.hash() + graph.program().program.to_string();
}

// F1, J14: graphs that are built, printed and lowered there are the same
TEST(GraphSettingsTest, NumbersAreNotTheHosts) {
  const std::string expected = text_of_graph();
  for (const HostFloating& floating : host_floatings) {
    const UnusualHost host(floating);
    const std::string text = text_of_graph();
    EXPECT_TRUE(host.is_as_before()) << floating.name;
    EXPECT_EQ(text, expected) << floating.name;
  }
}

// F1, J14: texts are parsed to the same graph
TEST(GraphSettingsTest, TextsAreReadBack) {
  const Graph graph("numbers");
  graph.finish(numbers(graph, graph.parameter("x", {f32, {3, 3}})));
  const std::string text = graph.to_string();
  for (const HostFloating& floating : host_floatings) {
    const UnusualHost host(floating);
    EXPECT_EQ(Graph::parse(text, "numbers").to_string(), text) << floating.name;
  }
}

// F1, J14: what a traced function computes itself is the same on whichever thread it is traced; the
// thread's own environment comes back, also where the function throws
TEST(GraphSettingsTest, TracedFunctionsComputeAsKernelsDo) {
  const volatile double one = 1, three = 3, zero = 0, tiny = 1e-310;
  const auto function = [&](const Node& x) { return x * (one / three) + zero / zero + tiny / 2; };
  const auto throws = [](const Node&) -> Node { throw std::runtime_error("no"); };
  const std::string expected = trace("f", function, ArrayType{f64, {}}).graph().hash();
  for (const HostFloating& floating : host_floatings) {
    const UnusualHost host(floating);
    const std::string hash = trace("f", function, ArrayType{f64, {}}).graph().hash();
    EXPECT_TRUE(host.is_as_before()) << floating.name;
    EXPECT_EQ(hash, expected) << floating.name;
    EXPECT_THROW(static_cast<void>(trace(throws, ArrayType{f64, {}})), Error);
    EXPECT_TRUE(host.is_as_before()) << floating.name;
  }
}

}  // namespace
}  // namespace heddle
