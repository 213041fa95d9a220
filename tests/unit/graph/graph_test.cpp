// Graphs as values: nodes, their places in the source, texts, what is refused.
#include "heddle/graph.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "heddle/status.hpp"
#include "support/failure.hpp"
#include "support/seeds.hpp"
#include "unit/graph/run_graph.hpp"

namespace heddle {
namespace {

using jit::testing::GraphRun;
using jit::testing::run_graph;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Graph perceptron() {
  Graph g("mlp");
  const Node x = g.parameter("x", {f32, {4, 6}});
  const Node w = g.parameter("w", {f32, {6, 5}});
  const Node b = g.parameter("b", {f32, {5}});
  const auto scope = g.scope("layers/0");
  g.finish({softmax(relu(matmul(x, w) + b))});
  return g;
}

// F1: the same construction gives the same text and hash, whatever was built before; names are no
// part of the hash
TEST(GraphTest, TextAndHashDoNotDependOnHistory) {
  const Graph first = perceptron();
  Graph other("other");
  const Node unused = other.parameter("in", {f32, {4, 6}});
  const Node w = other.parameter("weight", {f32, {6, 5}});
  const Node b = other.parameter("bias", {f32, {5}});
  static_cast<void>(exp(unused) * 3);  // needed by no result
  other.finish({softmax(relu(matmul(unused, w) + b))});
  EXPECT_EQ(first.to_string(), perceptron().to_string());
  EXPECT_EQ(first.hash(), other.hash());
  EXPECT_NE(first.to_string(), other.to_string());  // names are comments
  EXPECT_THAT(first.to_string(), AllOf(HasSubstr("heddle-graph 1\nv0 = parameter f32[4,6]  # x"),
                                       HasSubstr("# layers/0")));
}

// F1: nodes are hash-consed, and know where and in which scope they were made first
TEST(GraphTest, NodesKnowWhereTheyWereMade) {
  const Graph g("places");
  const Node x = g.parameter("x", {f32, {3}});
  Node sum;
  int line = 0;
  {
    const auto outer = g.scope("layers");
    const auto inner = g.scope("3");
    line = __LINE__ + 1;
    sum = x + 1;
  }
  const std::size_t before = g.num_nodes();
  const Node again = x + 1;
  EXPECT_EQ(g.num_nodes(), before);
  EXPECT_EQ(again.to_string(), sum.to_string());
  EXPECT_EQ(again.where().line(), static_cast<unsigned>(line));
  EXPECT_EQ(again.scope(), "layers/3");
  EXPECT_EQ((x * 2).scope(), "");
  EXPECT_EQ(sum.type(), (ArrayType{f32, {3}}));
}

// F1: what refers to a node's type may go on to do so
TEST(GraphTest, TypesStayWhereTheyAre) {
  const Graph g("types");
  const Node x = g.parameter("x", {f32, {2, 3}});
  const Dims& dims = x.dims();
  Node sum = x;
  for (int k = 0; k < 1000; ++k) sum = sum + x;
  EXPECT_EQ(&x.dims(), &dims);
  EXPECT_EQ(dims, (Dims{2, 3}));
}

// F2, J1: numbers take the type of what they meet, operands are broadcast and joined
TEST(GraphTest, TypesAndShapesFollowNumPy) {
  const Graph g("types");
  const Node small = g.parameter("a", {i8, {3, 1}});
  const Node wide = g.parameter("b", {i32, {4}});
  const Node half = g.parameter("c", {f16, {}});
  EXPECT_EQ((small + wide).type(), (ArrayType{i32, {3, 4}}));
  EXPECT_EQ((small + 1).type(), (ArrayType{i8, {3, 1}}));
  EXPECT_EQ((small * 0.5).type(), (ArrayType{f32, {3, 1}}));
  EXPECT_EQ((half + half).type(), (ArrayType{f32, {}}));
  EXPECT_EQ((wide < small).type(), (ArrayType{DType::bool_, {3, 4}}));
  EXPECT_EQ(mean(small).type(), (ArrayType{f32, {}}));
  EXPECT_EQ(sum(small < 3, {0}).type(), (ArrayType{i32, {1}}));
  EXPECT_EQ(reshape(wide, {2, -1}).dims(), (Dims{2, 2}));
  EXPECT_EQ(transpose(small).dims(), (Dims{1, 3}));
}

/// The message of what `make` is refused with.
template <class F>
std::string refusal(const F& make) {
  const Status status = failure([&] { static_cast<void>(make()); });
  EXPECT_EQ(status.code(), ErrorCode::invalid_argument) << status.to_string();
  return std::string(status.message());
}

// F2: errors name operation, operands with types and lines, what was expected and the cure; the
// graph is as it was
TEST(GraphTest, MistakesAreNamed) {
  const Graph g("bad");
  const Node x = g.parameter("x", {f32, {3, 4}});
  const Node y = g.parameter("y", {f32, {3, 5}});
  const Node u = g.parameter("u", {u64, {4}});
  const Node i = g.parameter("i", {i32, {4}});
  const std::size_t before = g.num_nodes();
  EXPECT_THAT(
      refusal([&] { return x + y; }),
      AllOf(HasSubstr("'add' of %0 'x' f32[3,4] (graph_test.cpp:"), HasSubstr("%1 'y' f32[3,5]"),
            HasSubstr("[3,4] and [3,5] do not broadcast"), HasSubstr("broadcast_in_dim()")));
  EXPECT_THAT(refusal([&] { return u + i; }), HasSubstr("no common type; convert one with cast"));
  EXPECT_THAT(refusal([&] { return i + 3'000'000'000; }), HasSubstr("does not fit i32"));
  EXPECT_THAT(refusal([&] { return sum(x, {2}); }), HasSubstr("(expected -2 to 1)"));
  EXPECT_THAT(refusal([&] { return sum(x, {1, -1}); }), HasSubstr("axis 1 is listed twice"));
  EXPECT_THAT(refusal([&] { return matmul(x, y); }), HasSubstr("has 4 elements, axis 0"));
  EXPECT_THAT(refusal([&] {
                return dot_general(
                    x, y, {.contract_a = {1}, .contract_b = {1}, .batch_a = {}, .batch_b = {}});
              }),
              HasSubstr("contracting axis 1 has 4 elements, axis 1 of the other has 5"));
  EXPECT_THAT(refusal([&] { return reshape(x, {5, -1}); }), HasSubstr("gives [5,-1] its 12"));
  EXPECT_THAT(refusal([&] { return reshape(x, {13}); }), HasSubstr("12 elements"));
  EXPECT_THAT(refusal([&] { return concatenate({x, y}); }), HasSubstr("may differ in axis 0"));
  EXPECT_THAT(refusal([&] { return window_sum(x, {.size = {5}}); }), HasSubstr("spans 5 elements"));
  EXPECT_THAT(refusal([&] { return pad(x, 0, {{-4, 0, 0}}); }), HasSubstr("4 elements are to go"));
  EXPECT_THAT(refusal([&] { return transpose(x, {0, 0}); }), HasSubstr("listed twice"));
  EXPECT_THAT(refusal([&] { return einsum("ij,kj->ik", {x, y}); }),
              HasSubstr("'j' has 4 elements"));
  EXPECT_THAT(refusal([&] { return g.parameter("n", {f32, {-1}}); }), HasSubstr("-1 elements"));
  EXPECT_THAT(refusal([&] { return broadcast_to(x, {std::int64_t{1} << 61, 3, 4}); }),
              HasSubstr("passes 2^63"));
  EXPECT_THAT(refusal([&] { return maximum(slice(x, 0, {0, 0}), {0}); }),
              HasSubstr("'max' of none has no value"));
  EXPECT_THAT(refusal([&] { return x + Node(); }), HasSubstr("a node of no graph"));
  EXPECT_THAT(refusal([&] { return split_key(x, 2); }), HasSubstr("a key is u64[]"));
  EXPECT_LE(g.num_nodes(), before + 1);  // the empty slice alone was made
}

// F2, G33: results are nodes of the graph, one at least; a finished graph takes no more
TEST(GraphTest, ResultsAreChecked) {
  const Graph g("ends");
  const Graph other("other");
  const Node x = g.parameter("x", {f32, {2}});
  const Node foreign = other.parameter("y", {f32, {2}});
  EXPECT_THAT(refusal([&] { return g.finish({}); }), HasSubstr("without a result"));
  EXPECT_THAT(refusal([&] { return g.finish({x, foreign}); }),
              AllOf(HasSubstr("result 1"), HasSubstr("of graph 'other'")));
  EXPECT_THAT(refusal([&] { return g.finish({Node()}); }), HasSubstr("result 0"));
  EXPECT_THAT(refusal([&] { return x + foreign; }), HasSubstr("nodes of two graphs"));
  EXPECT_EQ(failure([&] { static_cast<void>(g.to_string()); }).code(),
            ErrorCode::failed_precondition);
  g.finish({x});
  const Status late = failure([&] { static_cast<void>(x + 1); });
  EXPECT_EQ(late.code(), ErrorCode::failed_precondition);
  EXPECT_THAT(late.to_string(), HasSubstr("graph 'ends' is finished"));
  EXPECT_EQ(failure([&] { g.finish({x}); }).code(), ErrorCode::failed_precondition);
}

// G33: the same node twice is one computation and two results; a parameter may be one
TEST(GraphTest, ResultsMayRepeat) {
  const Graph g("twice");
  const Node x = g.parameter("x", {f32, {2}});
  const Node y = x * x;
  g.finish({y, y, x});
  EXPECT_EQ(g.program().program.statements().size(), 3u);
  const auto found = run_graph(g, {HostArray::of<float>({2}, {3, -4})});
  for (const std::size_t n : {0u, 1u}) EXPECT_EQ(found[n].values<float>()[1], 16);
  EXPECT_EQ(found[2].values<float>()[1], -4);
}

// G24: marked nodes are kept with their messages, and marks are part of the text
TEST(GraphTest, MarksAreKept) {
  const Graph g("marks");
  const Node x = g.parameter("x", {f32, {2}});
  (x + 1).log("a \"loss\"\n");
  g.finish({x * 2});
  const GraphProgram program = g.program();
  ASSERT_EQ(program.marked.size(), 1u);
  EXPECT_EQ(program.messages[0], "a \"loss\"\n");
  EXPECT_THAT(g.to_string(), HasSubstr("mark v"));
  const Graph again = Graph::parse(g.to_string());
  EXPECT_EQ(again.program().messages, program.messages);
  EXPECT_EQ(failure([&] { x.log("late"); }).code(), ErrorCode::failed_precondition);
}

// G24: what is marked comes back, a result as the tensor that it is
TEST(GraphTest, MarksHaveTheirValues) {
  const Graph g("marks");
  const Node x = g.parameter("x", {f32, {2}});
  const Node y = x * 2;
  x.log("a parameter");
  (x + 1).log("by the way");
  y.log("a result");
  g.finish({y});
  const std::vector<HostArray> arguments{HostArray::of<float>({2}, {3, -4})};
  GraphRun run(g, arguments, true);
  run.run();
  const GraphProgram& program = run.program;
  ASSERT_EQ(program.marked.size(), 3u);
  EXPECT_THAT(run.array_of(program.marked[0]).values<float>(), ElementsAre(3, -4));
  EXPECT_THAT(run.array_of(program.marked[1]).values<float>(), ElementsAre(4, -3));
  EXPECT_TRUE(program.marked[2] == program.results[0]);
  EXPECT_EQ(program.program.statements().size(), 3u);
}

// F2: what is wrong with the tensor of a result names the line that made its node
TEST(GraphTest, ResultsKnowTheirPlace) {
  const Graph g("place");
  g.finish({g.parameter("x", {f32, {2}}) * 2});
  const GraphProgram program = g.program();
  EXPECT_THAT(failure([&] { program.results[0].set_mode(MemoryMode::local); }).message(),
              ::testing::ContainsRegex("set at [^ ]*graph_test.cpp:"));
}

// F1: texts that are none are refused with line and column
TEST(GraphTest, MalformedTextsAreRefused) {
  const std::string text = perceptron().to_string();
  const auto refused = [&](const std::string& from, const std::string& to) {
    std::string bad = text;
    bad.replace(bad.find(from), from.size(), to);
    return refusal([&] { return Graph::parse(bad); });
  };
  EXPECT_THAT(refused("heddle-graph 1", "heddle-graph 2"), HasSubstr("line 1 column 14"));
  EXPECT_THAT(refused("dot(v0, v1)", "dot(v0, v9)"), HasSubstr("an operand from v0 to v2, those"));
  const std::string head = text.substr(0, text.find("v0"));
  EXPECT_THAT(refusal([&] { return Graph::parse(head + "results v0\n"); }),
              HasSubstr("a result, and there is no node before here"));
  EXPECT_THAT(refused("contract_a=[1]", "contract_a=[0]"), HasSubstr("contracting axis 0 has 4"));
  EXPECT_THAT(refused("element.relu", "element.relux"), HasSubstr("an operation such as add"));
  EXPECT_THAT(refused("results v", "results w"), HasSubstr("a result"));
  EXPECT_THAT(refused("f32[4,5]", "f32[4,6]"), HasSubstr("type f32[4,5] for this node"));
  for (std::size_t size = 0; size < text.size() - 1; ++size) {  // no end is a crash
    const Status status = failure([&] { static_cast<void>(Graph::parse(text.substr(0, size))); });
    EXPECT_TRUE(status.ok() || status.code() == ErrorCode::invalid_argument);
  }
}

// F1: eight threads that build at once do not meet
TEST(GraphTest, ThreadsBuildAtOnce) {
  const std::string wanted = perceptron().hash();
  std::vector<std::string> found(8);
  std::vector<std::thread> threads;
  for (std::string& hash : found) {
    threads.emplace_back([&hash] {
      for (int k = 0; k < 20; ++k) hash = perceptron().hash();
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::string& hash : found) EXPECT_EQ(hash, wanted);
}

// F3: no walk recurses: a chain of 100,000 nodes is built, printed, parsed, lowered, and goes
TEST(GraphTest, LongChainsTakeNoStack) {
  const Graph g("chain");
  Node x = g.parameter("x", {f32, {4}});
  // Frames are the larger under sanitizers, so that fewer of them would overflow a stack.
  const std::uint64_t length = 100'000 / (test::slower == 1 ? 1 : 5);
  for (std::uint64_t k = 0; k < length; ++k) x = x * 0.5 + 1;
  g.finish({x});
  const std::string text = g.to_string();
  EXPECT_EQ(Graph::parse(text).hash(), g.hash());
  EXPECT_GT(g.program().program.statements().size(), length / 200);
}

}  // namespace
}  // namespace heddle
