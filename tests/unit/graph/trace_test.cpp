// Traces: functions as graphs, trees of arguments and results, names.
#include "heddle/trace.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "jit/loop/text.hpp"
#include "jit/lower/lower.hpp"
#include "support/failure.hpp"
#include "unit/graph/run_graph.hpp"
#include "unit/graph/traced_net.hpp"

namespace heddle::trace_test {

/// Of arrays alone: it has no form with nodes.
struct Types {
  ArrayType weight;
};
HEDDLE_TREE(Types, weight)
/// Of nodes alone: a result, but no tree of other leaves.
struct Moments {
  Node mean, variance;
};
HEDDLE_TREE(Moments, mean, variance)

Node first_of(const std::vector<Node>& nodes) { return nodes.front(); }
Node sum_of(std::span<const Node> nodes) { return nodes[0] + nodes[1]; }
struct Scaled {
  double factor;
  Node operator()(const Node& x) const { return x * factor; }
};

using OfNode = Node (*)(Node);
static_assert(Traceable<OfNode, ArrayType> && Traceable<Scaled, ArrayType>);
static_assert(Traceable<const Scaled&, ArrayType> && Traceable<Node(const Operand&), ArrayType>);
static_assert(Traceable<decltype(first_of), std::vector<ArrayType>>);
static_assert(Traceable<decltype(sum_of), std::vector<ArrayType>>);
static_assert(Traceable<Net<Node>(Net<Node>), Net<ArrayType>>);
static_assert(Traceable<Moments(const Node&), ArrayType> && Traceable<Node(const Graph&)>);
static_assert(Traceable<std::pair<Node, std::array<Node, 2>>(Graph, Node), ArrayType>);
// G3: another number of arguments, other types of them, of leaves, of results
static_assert(!Traceable<OfNode> && !Traceable<OfNode, ArrayType, ArrayType>);
static_assert(!Traceable<OfNode, std::vector<ArrayType>> && !Traceable<Node(Node&), ArrayType>);
static_assert(!Traceable<Node(Node, const Graph&), ArrayType> && !Traceable<int, ArrayType>);
static_assert(!Traceable<OfNode, Node> && !Traceable<OfNode, HostArray> && !Traceable<OfNode, int>);
static_assert(!Traceable<Node(Types), Types>);
static_assert(!Traceable<Node(std::vector<float>), std::vector<float>>);
// G17: what is no node, and no tree of nodes
static_assert(!Traceable<void(Node), ArrayType> && !Traceable<float(Node), ArrayType>);
static_assert(!Traceable<std::unique_ptr<Node>(Node), ArrayType>);
static_assert(!Traceable<std::pair<Node, int>(Node), ArrayType>);
static_assert(!Traceable<std::vector<ArrayType>(Node), ArrayType>);

namespace {

using jit::testing::run_graph;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::MatchesRegex;
using ::testing::Not;
using ::testing::StartsWith;

std::vector<std::string> parameter_names(const Graph& graph) {
  std::vector<std::string> names;
  for (const Tensor& tensor : graph.program().parameters) names.push_back(tensor.label());
  return names;
}

// F1, G2, G15: arguments are trees, whose paths are the names of parameters
TEST(TraceTest, ArgumentsAreTrees) {
  const Traced<Node> traced = trace("net", run_net, net_types(), ArrayType{f32, {4, 2}});
  EXPECT_THAT(parameter_names(traced.graph()),
              ElementsAre("arg0/layers/0/weight", "arg0/layers/0/bias", "arg0/layers/1/weight",
                          "arg0/scales/in", "arg0/scales/\"out/last\"", "arg1"));
  EXPECT_EQ(traced.arguments().to_string(),
            "{arg0: {layers: [{weight: *, bias: some *}, {weight: *, bias: none}], scales: "
            "{\"in\": *, \"out/last\": *}}, arg1: *}");
  for (std::size_t k = 0; k < traced.arguments().num_leaves(); ++k)
    EXPECT_EQ(traced.arguments().path(k), parameter_names(traced.graph())[k]);
  EXPECT_EQ(traced.results(), TreeDef());
  EXPECT_TRUE(traced.graph().finished());
  EXPECT_EQ(traced.graph().results()[0].type(), (ArrayType{f32, {4, 2}}));
}

// F1, G2, G5: so are results; flat lists of leaves become trees again
TEST(TraceTest, ResultsAreTrees) {
  const auto traced = trace(
      "parts",
      [](const std::vector<Node>& parts, const std::pair<Node, std::array<Node, 2>>& more) {
        std::map<std::string, std::vector<Node>> sums;
        for (const Node& part : parts) sums["parts"].push_back(part + more.first);
        return std::tuple(std::move(sums), std::optional(more.second[1]),
                          Dense<Node>{more.second[0], std::nullopt});
      },
      std::vector(3, pair_of_f32),
      std::pair(ArrayType{f32, {}}, std::array{pair_of_f32, pair_of_f32}));
  EXPECT_EQ(traced.results().to_string(),
            "({\"parts\": [*, *, *]}, some *, {weight: *, bias: none})");
  const std::vector<float> values{1, 2};
  const HostArray array = HostArray::of({2}, values), ten = HostArray::of<float>({}, {10});
  const std::vector<HostArray> flat = traced.flatten_arguments<HostArray>(
      std::vector(3, array), std::pair(ten, std::array{array, HostArray::of<float>({2}, {7, 8})}));
  ASSERT_EQ(flat.size(), 6u);
  const auto [sums, second, dense] = traced.unflatten_results(run_graph(traced.graph(), flat));
  static_assert(std::is_same_v<decltype(dense), const Dense<HostArray>>);
  ASSERT_EQ(sums.at("parts").size(), 3u);
  EXPECT_THAT(sums.at("parts")[2].values<float>(), ElementsAre(11, 12));
  EXPECT_THAT(second.value().values<float>(), ElementsAre(7, 8));
  EXPECT_THAT(dense.weight.values<float>(), ElementsAre(1, 2));
  EXPECT_FALSE(dense.bias);
  EXPECT_EQ(failure([&] { static_cast<void>(traced.unflatten_results(flat)); }).code(),
            ErrorCode::invalid_argument);
}

// G2: structs of nodes alone are results too, of nodes; functions are objects, pointers, members
TEST(TraceTest, AnyCallableIsAFunction) {
  const Traced<Moments> moments =
      trace("moments", [](const Node& x) { return Moments{mean(x), variance(x)}; }, pair_of_f32);
  EXPECT_EQ(moments.results().to_string(), "{mean: *, variance: *}");
  const Moments made = moments.unflatten_results(moments.graph().results());
  EXPECT_EQ(made.variance.to_string(), moments.graph().results()[1].to_string());
  EXPECT_EQ(trace("scaled", Scaled{3}, pair_of_f32).graph().num_nodes(), 4u);
  EXPECT_EQ(trace("sum", &sum_of, std::vector(2, pair_of_f32)).graph().parameters().size(), 2u);
  int calls = 0;
  static_cast<void>(trace(
      "counts",
      [&calls, own = std::make_unique<int>(2)](Node x) mutable {
        calls += *own;
        return x;
      },
      pair_of_f32));
  EXPECT_EQ(calls, 2);
}

// G4: a function may take the graph, with other arguments or without; parameters that it makes
// itself come after those of its arguments
TEST(TraceTest, FunctionsMayTakeTheGraph) {
  const auto alone = trace("alone", [](const Graph& g) { return g.iota({i32, {3}}) * 2; });
  EXPECT_EQ(alone.arguments().to_string(), "{}");
  EXPECT_THAT(run_graph(alone.graph(), {})[0].values<std::int32_t>(), ElementsAre(0, 2, 4));
  const auto scoped = trace(
      "scoped",
      [](const Graph& g, Node x) {
        const auto scope = g.scope("shift");
        return x + g.parameter("side", {f32, {}}) + g.constant(1);
      },
      pair_of_f32);
  EXPECT_THAT(parameter_names(scoped.graph()), ElementsAre("arg0", "side"));
  EXPECT_EQ(scoped.arguments().num_leaves(), 1u);
  EXPECT_EQ(scoped.graph().results()[0].scope(), "shift");
}

// F1, G15: traces of one name are numbered; text and hash are the same whatever was before
TEST(TraceTest, NamesAreNumbered) {
  const auto square = [](const Node& x) { return x * x; };
  const auto first = trace("numbered", square, pair_of_f32);
  static_cast<void>(trace("between", square, pair_of_f32));
  const auto second = trace(std::string("numbered"), square, pair_of_f32);
  EXPECT_THROW(
      static_cast<void>(trace("numbered", [](Node x) { return x + Node(); }, pair_of_f32)), Error);
  EXPECT_EQ(first.name(), "numbered");
  EXPECT_EQ(second.name(), "numbered#2");
  EXPECT_EQ(trace("numbered", square, pair_of_f32).name(), "numbered#4");
  EXPECT_EQ(second.program().program.name(), "numbered#2");
  EXPECT_THAT(trace(square, pair_of_f32).name(), MatchesRegex("graph(#[0-9]+)?"));
  EXPECT_EQ(first.graph().to_string(), second.graph().to_string());
  EXPECT_EQ(first.graph().hash(), second.graph().hash());
  EXPECT_EQ(first.arguments(), second.arguments());
}

// G15: a name that looks like a number of another is one name all the same
TEST(TraceTest, NumberedNamesDoNotMeet) {
  const auto twice = [](const Node& x) { return x * 2; };
  const auto named = [&](const std::string& name) {
    return trace(name, twice, ArrayType{f32, {2}}).name();
  };
  EXPECT_EQ(named("meets#2"), "meets#2");
  EXPECT_EQ(named("meets"), "meets#3");
  EXPECT_EQ(named("meets"), "meets#4");
  EXPECT_EQ(named("meets#3"), "meets#5");
  EXPECT_EQ(named("meets#9"), "meets#9");
  EXPECT_EQ(named("meets"), "meets#10");
  EXPECT_EQ(named("meets#x"), "meets#x");
  EXPECT_EQ(named("meets#1"), "meets#1");
  EXPECT_EQ(named("meets#18446744073709551616"), "meets#18446744073709551616");
}

// F1: the text of a trace has a way back, with its names
TEST(TraceTest, TextsHaveAWayBack) {
  const auto traced = trace(
      "net",
      [](const Graph& g, const Net<Node>& net, const Node& x) {
        const auto scope = g.scope("net/layers");
        return std::vector{run_net(net, x), x};
      },
      net_types(), ArrayType{f32, {4, 2}});
  const std::string text = traced.graph().to_string();
  EXPECT_THAT(text, AllOf(HasSubstr("  # arg0/layers/1/weight\n"), HasSubstr("  # net/layers\n")));
  const Graph again = Graph::parse(text);
  EXPECT_EQ(again.hash(), traced.graph().hash());
  EXPECT_EQ(again.to_string(), text);
  EXPECT_EQ(parameter_names(again), parameter_names(traced.graph()));
  EXPECT_EQ(again.results()[0].scope(), "net/layers");
}

// G33: a node that is returned twice is computed once; an argument may be returned as it is
TEST(TraceTest, ResultsMayRepeat) {
  const auto traced = trace(
      "twice",
      [](const Node& x) {
        const Node y = x * x;
        return std::tuple(y, y, x);
      },
      pair_of_f32);
  EXPECT_EQ(traced.program().program.statements().size(), 3u);  // one product, two copies
  const auto found = run_graph(traced.graph(), {HostArray::of<float>({2}, {3, -4})});
  for (const std::size_t n : {0u, 1u}) EXPECT_THAT(found[n].values<float>(), ElementsAre(9, 16));
  EXPECT_THAT(found[2].values<float>(), ElementsAre(3, -4));
}

// F1, F2: a function that is traced may trace others, each into a graph of its own
TEST(TraceTest, TracesNest) {
  std::string inner_text;
  const auto square = [](const Node& x) { return x * x; };
  const auto outer = [&](const Node& x) {
    const Node before = x + 1;
    inner_text = trace("inner", square, pair_of_f32).graph().to_string();
    return before + square(x);
  };
  const auto traced = trace("outer", outer, pair_of_f32);
  const auto alone = trace(
      "alone",
      [&](const Node& x) {
        const Node before = x + 1;
        return before + square(x);
      },
      pair_of_f32);
  EXPECT_EQ(traced.graph().num_nodes(), alone.graph().num_nodes());
  EXPECT_EQ(traced.graph().to_string(), alone.graph().to_string());
  EXPECT_EQ(inner_text, trace("inner", square, pair_of_f32).graph().to_string());
  const Status leaked = failed_trace("outer_leaks", [&](const Node& x) {
    static_cast<void>(trace("inner_takes", [&](const Node&) { return exp(x); }, pair_of_f32));
    return x;
  });
  EXPECT_THAT(leaked.to_string(), AllOf(HasSubstr("function 'outer_leaks' failed in its trace"),
                                        HasSubstr("of graph 'inner_takes' is %1 exp"),
                                        HasSubstr("of graph 'outer_leaks'; make it in this one")));
}

// F1: scopes are comments of the statements that make their nodes
TEST(TraceTest, ScopesAreCommentsOfLoops) {
  const auto traced = trace(
      "scopes",
      [](const Graph& g, Node x) {
        for (int k = 0; k < 2; ++k) {
          const auto layer = g.scope("layers/" + std::to_string(k));
          x = softmax(x);
        }
        return sum(x);
      },
      ArrayType{f32, {4, 5}});
  const std::string text = jit::print(jit::lower(traced.program().program).loop);
  const std::size_t first = text.find("# layers/0\n"), second = text.find("# layers/1\n");
  ASSERT_NE(second, std::string::npos) << text;
  EXPECT_LT(first, second);
  EXPECT_GT(text.find("# no scope\n"), second);  // and npos is no such place
  EXPECT_EQ(text.find("# no scope\n", second), text.rfind("# no scope\n"));
  EXPECT_NE(text.find("# no scope\n"), std::string::npos);
}

// F1: eight threads that trace at once do not meet
TEST(TraceTest, ThreadsTraceAtOnce) {
  const ArrayType input{f32, {4, 2}};
  const std::string wanted = trace("threads", run_net, net_types(), input).graph().to_string();
  std::vector<std::string> texts(8), names;
  std::mutex mutex;
  std::vector<std::thread> threads;
  for (std::string& text : texts) {
    threads.emplace_back([&] {
      for (int k = 0; k < 20; ++k) {
        const auto traced = trace("threads", run_net, net_types(), input);
        static_cast<void>(failed_trace("threads_fail", [](const Node& x) { return x + Node(); }));
        text = traced.graph().to_string();
        const std::lock_guard lock(mutex);
        names.push_back(traced.name());
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& text : texts) EXPECT_EQ(text, wanted);
  std::ranges::sort(names);
  EXPECT_EQ(std::ranges::adjacent_find(names), names.end());  // each name is given once
}

}  // namespace
}  // namespace heddle::trace_test
