// Random graphs, lowered to programs and loops, against their own interpreter.
// HEDDLE_TEST_SEEDS=n looks at n of them, HEDDLE_TEST_SEED=s at those from s on.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "jit/graph/state.hpp"
#include "jit/loop/text.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/schedule.hpp"
#include "jit/system/inside.hpp"
#include "support/graph_interpreter.hpp"
#include "support/loop_interpreter.hpp"
#include "support/random_contraction.hpp"
#include "support/random_graph.hpp"
#include "support/random_program.hpp"
#include "support/seeds.hpp"
#include "unit/graph/run_graph.hpp"

namespace heddle::jit::testing {
namespace {

std::vector<HostArray> random_arguments(const Graph& graph, std::uint64_t seed) {
  std::vector<HostArray> arguments;
  for (const Node& parameter : graph.parameters())
    arguments.push_back(random_array(parameter.type(), seed + arguments.size()));
  return arguments;
}

void expect_lowered_as_interpreted(std::uint64_t seed) {
  const Graph graph = random_graph(seed, 2 + static_cast<int>(seed % 12));
  const std::vector<HostArray> arguments = random_arguments(graph, seed);
  const std::vector<HostArray> wanted = interpret(graph, arguments);
  for (const bool optimized : {false, true}) {
    GraphRun run(graph, arguments, optimized);
    run.run();
    const std::vector<HostArray> results = run.results();
    ASSERT_EQ(results.size(), wanted.size());
    for (std::size_t n = 0; n < wanted.size(); ++n) {
      const HostArray& found = results[n];
      ASSERT_TRUE(found.type() == wanted[n].type() && same_elements(wanted[n], found))
          << "seed " << seed << ", optimized " << optimized << ", result " << n << "\n"
          << wanted[n].to_string() << "\n"
          << found.to_string() << "\n"
          << graph.to_string() << run.program.program.to_string();
    }
  }
}

// F3: every kind of node, every dtype; each bit, and what is said to be overwritten whole is
TEST(RandomGraphTest, LoopsGiveWhatNodesMean) {
  const std::uint64_t first = test::from_environment("HEDDLE_TEST_SEED", 1);
  for (std::uint64_t seed = first; seed < first + test::seeds(1'000); ++seed) {
    expect_lowered_as_interpreted(seed);
    if (HasFatalFailure()) return;
  }
}

// F1: what is parsed prints the same, and means the same
TEST(RandomGraphTest, TextsHaveAWayBack) {
  const std::uint64_t first = test::from_environment("HEDDLE_TEST_SEED", 1);
  for (std::uint64_t seed = first; seed < first + test::seeds(300); ++seed) {
    const Graph graph = random_graph(seed, 2 + static_cast<int>(seed % 12));
    const Graph again = Graph::parse(graph.to_string());
    ASSERT_EQ(again.hash(), graph.hash()) << "seed " << seed << "\n" << graph.to_string();
    const auto arguments = random_arguments(graph, seed);
    const auto wanted = interpret(graph, arguments);
    const auto found = interpret(again, arguments);
    for (std::size_t n = 0; n < wanted.size(); ++n)
      ASSERT_TRUE(same_elements(wanted[n], found[n])) << "seed " << seed;
  }
}

/// The graph with a scope for each node, of a few that alternate.
Graph with_scopes(const Graph& graph) {
  std::istringstream lines(graph.to_string());
  std::string text, line;
  for (int k = 0; std::getline(lines, line); ++k) {
    const bool is_node = line.starts_with("v") && line.find(" = parameter") == std::string::npos;
    text += line + (is_node ? "  # layers/" + std::to_string(k % 3) + "\n" : "\n");
  }
  return Graph::parse(text);
}

// F1, F3: scopes are comments, in loops too: schedules choose what they choose without
TEST(RandomGraphTest, ScopesDecideNothing) {
  const std::uint64_t first = test::from_environment("HEDDLE_TEST_SEED", 1);
  std::size_t comments = 0;
  for (std::uint64_t seed = first; seed < first + test::seeds(200); ++seed) {
    const Graph plain = random_graph(seed, 2 + static_cast<int>(seed % 20));
    const Graph scoped = with_scopes(plain);
    EXPECT_EQ(scoped.hash(), plain.hash());
    const auto scheduled = [](const Graph& graph) {
      return schedule(optimize(lower(graph.program().program)), tiny_target(Isa::avx2)).loop;
    };
    const Loop wanted = scheduled(plain), found = scheduled(scoped);
    ASSERT_EQ(hash(found), hash(wanted)) << "seed " << seed << "\n"
                                         << print(wanted) << print(found);
    ASSERT_EQ(cut_kernels(found, 40).size(), cut_kernels(wanted, 40).size()) << "seed " << seed;
    if (print(found).find("# layers/") != std::string::npos) ++comments;
  }
  EXPECT_GT(comments, 0u);
}

// B3: schedules keep every bit, but for the order of sums
TEST(RandomGraphTest, SchedulesGiveWhatLoopsGive) {
  const std::uint64_t first = test::from_environment("HEDDLE_TEST_SEED", 1);
  const Target target = with_isa(native_target(), Isa::avx512);
  for (std::uint64_t seed = first; seed < first + test::seeds(300); ++seed) {
    const Graph graph = random_graph(seed, 2 + static_cast<int>(seed % 20));
    const Lowered plain = optimize(lower(graph.program().program));
    constexpr ScheduleStep of_sums[] = {ScheduleStep::contraction, ScheduleStep::reduction};
    const Lowered made = schedule(plain, target, of_sums);
    std::vector<HostArray> wanted, found;
    for (std::size_t k = 0; k < made.loop.buffers.size(); ++k) {
      found.push_back(random_array(made.loop.buffers[k].type, seed + k));
      if (k < plain.loop.buffers.size())
        wanted.push_back(random_array(plain.loop.buffers[k].type, seed + k));
    }
    interpret(plain.loop, wanted);
    interpret(made.loop, found);
    for (std::size_t k = 0; k < wanted.size(); ++k) {
      if (plain.loop.buffers[k].role == Role::scratch) continue;
      ASSERT_TRUE(same_elements(wanted[k], found[k])) << "seed " << seed << "\n"
                                                      << graph.to_string() << print(made.loop);
    }
  }
}

// F3: what random graphs are cited for, they make: each kind of node and each operation of it
TEST(RandomGraphTest, EveryOperationOccurs) {
  std::set<std::pair<NodeKind, Op>> made;
  for (std::uint64_t seed = 1; seed <= 500; ++seed) {
    const auto graph = Inside::of(random_graph(seed, 2 + static_cast<int>(seed % 24)));
    for (NodeId id = 0; id < graph->nodes.size(); ++id) {
      const GraphNode& node = graph->node(id);
      made.emplace(node.kind, has_op(node.kind) ? node.op : Op::identity);
    }
  }
  std::vector<std::string> missing;
  const auto expect = [&](NodeKind kind, Op op) {
    if (!made.contains({kind, op}))
      missing.push_back(fmt::format("{} {}", kind_info(kind).name, op_info(op).name));
  };
  for (std::size_t k = 0; k < all_kinds().size(); ++k) {
    const auto kind = static_cast<NodeKind>(k);
    if (!has_op(kind)) expect(kind, Op::identity);
  }
  for (std::size_t k = 0; k < op_count; ++k) {
    if (const auto op = static_cast<Op>(k); op_info(op).op_class != OpClass::words)
      expect(NodeKind::element, op);
  }
  for (const Op op : {Op::add, Op::mul, Op::max, Op::min, Op::and_, Op::or_})
    expect(NodeKind::reduce, op);
  for (const Op op : {Op::add, Op::max, Op::min}) expect(NodeKind::window, op);
  for (const Op op : {Op::add, Op::mul, Op::max}) expect(NodeKind::cumulate, op);
  for (const Op op : {Op::arg2, Op::add, Op::mul, Op::max, Op::min}) expect(NodeKind::scatter, op);
  EXPECT_THAT(missing, ::testing::IsEmpty());
}

}  // namespace
}  // namespace heddle::jit::testing
