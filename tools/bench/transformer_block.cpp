// See transformer_block.hpp.
#include "tools/bench/transformer_block.hpp"

#include "heddle/graph_ops.hpp"

namespace heddle::bench {
namespace {

constexpr std::int64_t block_heads = 12, hidden = 4 * block_width;

}  // namespace

Node transformer_block(const Graph& g, const Node& x) {
  const auto vector = [&](const char* name) { return g.parameter(name, {f32, {block_width}}); };
  const auto matrix = [&](const char* name, std::int64_t rows, std::int64_t columns) {
    return g.parameter(name, {f32, {rows, columns}});
  };
  const auto by_heads = [](const Node& each) {
    return transpose(reshape(each, {block_tokens, block_heads, block_width / block_heads}),
                     {1, 0, 2});
  };
  const Node gain1 = vector("gain1"), bias1 = vector("bias1");
  const Node wq = matrix("wq", block_width, block_width),
             wk = matrix("wk", block_width, block_width),
             wv = matrix("wv", block_width, block_width),
             wo = matrix("wo", block_width, block_width);
  const Node gain2 = vector("gain2"), bias2 = vector("bias2");
  const Node up = matrix("up", block_width, hidden), down = matrix("down", hidden, block_width);
  // The default weights are uniform in [0, 1): scaled down and centred on 0, so that softmax does
  // not select a single key.
  const auto small = [](const Node& w) { return (w - 0.5) * 0.05; };
  const Node normal = layer_norm(x, gain1, bias1);
  const Node mixed =
      attention(by_heads(matmul(normal, small(wq))), by_heads(matmul(normal, small(wk))),
                by_heads(matmul(normal, small(wv))));
  const Node attended =
      x + matmul(reshape(transpose(mixed, {1, 0, 2}), {block_tokens, block_width}), small(wo));
  const Node wide = gelu(matmul(layer_norm(attended, gain2, bias2), small(up)));
  return attended + matmul(wide, small(down));
}

}  // namespace heddle::bench
