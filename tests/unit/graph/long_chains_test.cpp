// Long graphs on small stacks: no stage recurses along them, from the trace to the last kernel.
#include <gtest/gtest.h>
#include <pthread.h>

#include <cstdint>
#include <functional>
#include <vector>

#include "heddle/graph_ops.hpp"
#include "jit/schedule/cut.hpp"
#include "jit/schedule/schedule.hpp"
#include "support/graph_interpreter.hpp"
#include "support/random_contraction.hpp"
#include "support/seeds.hpp"
#include "unit/graph/run_graph.hpp"

namespace heddle::jit::testing {
namespace {

using Link = std::function<Node(const Node&)>;

void expect_interpreted(const Dims& dims, const Link& link) {
  const Graph g("chain");
  Node x = g.parameter("x", {i32, dims});
  for (std::uint64_t left = test::seeds(5'000); left > 0; --left) x = link(x);
  g.finish({x});
  EXPECT_EQ(Graph::parse(g.to_string()).hash(), g.hash());
  HostArray argument(g.parameters()[0].type());
  for (std::int64_t k = 0; k < argument.num_elements(); ++k)
    argument.set(k, static_cast<double>(k - 1));
  const Target target = tiny_target(Isa::avx2);
  GraphRun run(g, {argument}, true, &target);
  std::size_t cut = 0;
  for (const KernelPart& part : cut_kernels(run.lowered.loop, 2'000)) cut += nodes_of(part.loop);
  EXPECT_GE(cut, test::seeds(5'000)) << "no link was left out";
  run.run();
  EXPECT_TRUE(same_elements(interpret(g, {argument})[0], run.result(0)));
}

/// On a stack that has 52 bytes for each of 5,000 links. Sanitizers have larger frames, and fewer
/// links.
void on_small_stack(const std::function<void()>& body) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, test::slower * (std::size_t{256} << 10U));
  pthread_t thread;
  const auto run = [](void* what) -> void* {
    (*static_cast<const std::function<void()>*>(what))();
    return nullptr;
  };
  ASSERT_EQ(
      pthread_create(&thread, &attributes, run, const_cast<void*>(static_cast<const void*>(&body))),
      0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

void expect_flat(const Dims& dims, const Link& link) {
  on_small_stack([&] { expect_interpreted(dims, link); });
}

// F3: each kind of link, as often as a recursion along it would need more stack than there is
TEST(LongChainsTest, Elements) {
  expect_flat({4}, [](const Node& x) { return x * 3 + 1; });
}
TEST(LongChainsTest, Layout) {
  expect_flat({4, 6}, [](const Node& x) { return reshape(transpose(x), {4, 6}); });
}
TEST(LongChainsTest, Sums) {
  expect_flat({4}, [](const Node& x) { return x + sum(x); });
}
TEST(LongChainsTest, Places) {
  expect_flat({4}, [](const Node& x) { return scatter(x, {x}, take(x, x), Scatter::add); });
}

// F3, J7: what a compiler is given at once stays small, however long the chain: neither passes nor
// joined loops put it together again
TEST(LongChainsTest, AreCutWhereTheyAreLong) {
  const Graph g("chain");
  Node x = g.parameter("x", {f32, {64}});
  for (int k = 0; k < 500; ++k) x = tanh(x * 0.5 + k);
  g.finish({x});
  const Lowered lowered = schedule(optimize(lower(g.program().program)), tiny_target(Isa::avx2));
  const auto parts = cut_kernels(lowered.loop, 2'000);
  EXPECT_GT(parts.size(), 2U);
  for (const KernelPart& part : parts) EXPECT_LE(nodes_of(part.loop), 2'000U);
}

}  // namespace
}  // namespace heddle::jit::testing
