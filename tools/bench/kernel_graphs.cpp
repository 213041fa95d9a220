// Graphs: programs that statements can express too, and programs that only graphs can express.
#include <cstdint>
#include <string>

#include "heddle/graph.hpp"
#include "heddle/graph_ops.hpp"
#include "tools/bench/cases.hpp"
#include "tools/bench/compiled_kernel.hpp"
#include "tools/bench/plain_kernels.hpp"
#include "tools/bench/programs.hpp"
#include "tools/bench/transformer_block.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t graph_side = 4096;
constexpr std::int64_t table_rows = 50'000, table_width = 64, looked_up = 16'384;
constexpr std::int64_t added_rows = 1'000'000, sums = 50'000, added_width = 16;
constexpr std::int64_t sorted = 1'000'000, best = 64;
constexpr std::int64_t heads = 8, tokens = 512, depth = 64;

constexpr const char* by_statements = "heddle, by statements";

/// The program of a complete graph, with memory for its parameters; whole numbers are below
/// `below`.
KernelSetup graph_setup(const Graph& graph, const Node& result, std::int64_t below = 1) {
  graph.finish({result});
  const GraphProgram lowered = graph.program();
  KernelSetup made{lowered.program, {}, {}};
  for (const Tensor& each : lowered.parameters) made.give(each, below);
  made.give(lowered.results.front());
  return made;
}

KernelSetup softmax_graph() {
  const Graph g("softmax");
  return graph_setup(g, softmax(g.parameter("x", {f32, {graph_side, graph_side}})));
}

KernelSetup layernorm_graph() {
  const Graph g("layernorm");
  const Node x = g.parameter("x", {f32, {graph_side, graph_side}}),
             gain = g.parameter("gain", {f32, {graph_side}}),
             bias = g.parameter("bias", {f32, {graph_side}});
  return graph_setup(g, layer_norm(x, gain, bias));
}

KernelSetup transpose_graph() {
  const Graph g("transpose");
  return graph_setup(g, transpose(g.parameter("x", {f32, {graph_side, graph_side}})));
}

KernelSetup bias_and_relu_graph() {
  const Graph g("matmul_bias_relu");
  const Node a = g.parameter("a", {f32, {512, 512}}), b = g.parameter("b", {f32, {512, 512}}),
             bias = g.parameter("bias", {f32, {512}});
  return graph_setup(g, relu(matmul(a, b) + bias));
}

KernelSetup convolution_graph() {
  const Graph g("conv2d");
  const Node x = g.parameter("x", {f32, {1, 64, 58, 58}}),
             w = g.parameter("w", {f32, {64, 64, 3, 3}});
  return graph_setup(g, conv(x, w));
}

KernelSetup attention_graph() {
  const Graph g("attention");
  const ArrayType type{f32, {heads, tokens, depth}};
  const Node q = g.parameter("q", type), k = g.parameter("k", type), v = g.parameter("v", type);
  return graph_setup(g, attention(q, k, v));
}

KernelSetup embedding_graph() {
  const Graph g("embedding");
  const Node table = g.parameter("table", {f32, {table_rows, table_width}}),
             rows = g.parameter("rows", {i64, {looked_up}});
  return graph_setup(g, take(table, rows), table_rows);
}

KernelSetup scatter_graph() {
  const Graph g("scatter_add");
  const Node x = g.parameter("x", {f32, {sums, added_width}}),
             rows = g.parameter("rows", {i64, {added_rows}}),
             updates = g.parameter("updates", {f32, {added_rows, added_width}});
  return graph_setup(g, scatter(x, {rows}, updates, Scatter::add), sums);
}

KernelSetup sort_graph() {
  const Graph g("sort");
  return graph_setup(g, sort(g.parameter("x", {f32, {sorted}})));
}

KernelSetup top_graph() {
  const Graph g("top_k");
  return graph_setup(g, top_k(g.parameter("x", {f32, {sorted}}), best).values);
}

KernelSetup block_graph() {
  const Graph g("transformer_block");
  return graph_setup(g, transformer_block(g, g.parameter("x", {f32, {block_tokens, block_width}})));
}

void plain_rows(const KernelSetup& made) {
  plain_gather(looked_up, table_width, made.data(0), made.arrays[1].values<std::int64_t>().data(),
               made.data(2));
}
void plain_sums(const KernelSetup& made) {
  plain_scatter_add(sums, added_rows, added_width, made.data(0),
                    made.arrays[1].values<std::int64_t>().data(), made.data(2), made.data(3));
}
void plainly_sorted(const KernelSetup& made) { plain_sort(sorted, made.data(0), made.data(1)); }
void plainly_best(const KernelSetup& made) { plain_top(sorted, best, made.data(0), made.data(1)); }

}  // namespace

void add_graph_rows(std::vector<Row>& rows) {
  const auto add = [&](const char* workload, std::size_t calls, KernelSetup (*make)(),
                       std::vector<Alternative> others) {
    add_kernel_rows(rows, {"graph", workload, calls, make, std::move(others)});
  };
  add("graph softmax, 4096x4096", 1, softmax_graph,
      {by_program(by_statements, [] { return softmax_of(graph_side, graph_side); })});
  add("graph layernorm, 4096x4096", 1, layernorm_graph,
      {by_program(by_statements, [] { return layernorm_of(graph_side, graph_side); })});
  add("graph transpose, 4096x4096", 1, transpose_graph,
      {by_program(by_statements, [] { return transpose_of(graph_side, graph_side); })});
  add("graph bias and relu, 512x512", 1, bias_and_relu_graph,
      {by_program(by_statements, [] { return with_bias_and_relu(512); })});
  add("graph conv2d 3x3, 64 to 64 channels, 56x56", 1, convolution_graph,
      {by_program(by_statements, [] { return convolution_of(64, 64, 56, 56); })});
  add("attention, 8 heads, 512x64", 1, attention_graph, {});
  add("embedding, 16384 rows x 64 of 50000", 1, embedding_graph,
      {in_process("plain C++ loop", Kind::limit, plain_rows)});
  add("scatter-add, 1M rows x 16 into 50000", 1, scatter_graph,
      {in_process("plain C++ loop", Kind::limit, plain_sums)});
  add("sort, 1M", 1, sort_graph, {in_process("std::stable_sort", Kind::limit, plainly_sorted)});
  add("top_k, 64 of 1M", 1, top_graph,
      {in_process("std::partial_sort", Kind::limit, plainly_best)});
  add("transformer block, 512x768", 1, block_graph, {});
}

}  // namespace heddle::bench
