// Networks, forward and with gradients written by hand, and the decoding of tokens.
#include <fmt/format.h>

#include <cmath>
#include <memory>
#include <vector>

#include "tools/bench/cases.hpp"
#include "tools/bench/written.hpp"

namespace heddle::bench {
namespace {

WrittenModel lstm_of(std::int64_t batch, std::int64_t wide) {
  constexpr std::int64_t steps = 100;
  const auto model = [](const Graph& graph, const Node& x, const Node& by_input,
                        const Node& by_state, const Node& bias) {
    const Dims state{x.dims()[1], x.dims()[2]};
    Node h = broadcast_to(graph.constant(0.0F), state), c = h;
    for (std::int64_t t = 0; t < x.dims()[0]; ++t) {
      const Node z = matmul(x[t], by_input) + matmul(h, by_state) + bias;
      const std::vector<Node> gates = split(z, 4, 1);
      c = sigmoid(gates[1]) * c + sigmoid(gates[0]) * tanh(gates[2]);
      h = sigmoid(gates[3]) * tanh(c);
    }
    return h;
  };
  return {"LSTM, 100 steps",
          fmt::format("batch {}, {} wide", batch, wide),
          {numbers({steps, batch, wide}, -1, 1), numbers({wide, 4 * wide}, -0.1, 0.1),
           numbers({wide, 4 * wide}, -0.1, 0.1), numbers({4 * wide}, -0.1, 0.1)},
          by_executor(model),
          plain::lstm,
          1e-3};
}

WrittenModel conv_net_of(std::int64_t batch) {
  const auto layer = [](const Node& x, const Node& w) {
    return window_maximum(relu(conv(x, w)), {.size = {2, 2}});
  };
  return {
      "convolution net",
      fmt::format("batch {}, 3x32x32", batch),
      {numbers({batch, 3, 32, 32}), numbers({16, 3, 3, 3}, -0.2, 0.2),
       numbers({32, 16, 3, 3}, -0.1, 0.1), numbers({1152, 10}, -0.1, 0.1)},
      by_executor([layer](const Node& x, const Node& first, const Node& second, const Node& last) {
        const Node seen = layer(layer(x, first), second);
        return matmul(reshape(seen, {seen.dims()[0], -1}), last);
      }),
      plain::conv_net,
      1e-3};
}

std::vector<Node> step_of_perceptron(const Node& x, const Node& labels, const Node& w1,
                                     const Node& b1, const Node& w2, const Node& b2) {
  const double rate = 0.1;
  const Node h = relu(matmul(x, w1) + b1);
  const Node dz = (softmax(matmul(h, w2) + b2) - one_hot(labels, b2.dims()[0])) / x.dims()[0];
  const Node dh = where(h > 0.0, matmul(dz, transpose(w2)), 0.0);
  return {w1 - rate * matmul(transpose(x), dh), b1 - rate * sum(dh, 0),
          w2 - rate * matmul(transpose(h), dz), b2 - rate * sum(dz, 0)};
}

std::vector<Node> step_of_regression(const Node& x, const Node& labels, const Node& w,
                                     const Node& b) {
  const double rate = 0.1;
  const Node dz = (softmax(matmul(x, w) + b) - one_hot(labels, b.dims()[0])) / x.dims()[0];
  return {w - rate * matmul(transpose(x), dz), b - rate * sum(dz, 0)};
}

/// [tokens, 4 * depth] as [4, tokens, depth].
Node in_four_heads(const Node& x) { return transpose(reshape(x, {x.dims()[0], 4, -1}), {1, 0, 2}); }

Node block_of_attention(const Node& x, const Node& gain, const Node& shift, const Node& wq,
                        const Node& wk, const Node& wv, const Node& wo) {
  const Node normal = layer_norm(x, gain, shift);
  const Node mixed = attention(in_four_heads(matmul(normal, wq)), in_four_heads(matmul(normal, wk)),
                               in_four_heads(matmul(normal, wv)));
  return x + matmul(reshape(transpose(mixed, {1, 0, 2}), {x.dims()[0], -1}), wo);
}

/// A layer of attention for one token at `place`, and the keys and values with the token's.
std::vector<Node> decode_one(const Graph& graph, const Node& x, const Node& wq, const Node& wk,
                             const Node& wv, const Node& wo, const Node& keys, const Node& values,
                             const Node& place) {
  const std::int64_t heads = keys.dims()[0], longest = keys.dims()[1], depth = keys.dims()[2];
  const std::vector<std::int64_t> by_heads{heads, 1, depth};
  const Node new_keys = dynamic_update_slice(keys, reshape(matmul(x, wk), by_heads), {0, place, 0});
  const Node new_values =
      dynamic_update_slice(values, reshape(matmul(x, wv), by_heads), {0, place, 0});
  const Node seen = graph.iota({i64, {1, longest}}) <= place;
  const Node mixed = attention(reshape(matmul(x, wq), by_heads), new_keys, new_values, {}, seen);
  return {x + matmul(reshape(mixed, {1, heads * depth}), wo), new_keys, new_values};
}

/// Decodes tokens in turn, and waits for each; keys and values stay in their memory.
WrittenRun decode_in_turn(const Device& device, const std::vector<Array>& x,
                          const std::string& name) {
  const HostArray tokens = x[0].to_host();
  const std::int64_t count = tokens.type().dims[0], wide = tokens.type().dims[1],
                     first = x[5].type().dims[1] - count;
  std::vector<Array> each;
  for (std::int64_t t = 0; t < count; ++t)
    each.emplace_back(device, Dims{1, wide},
                      tokens.values<float>().subspan(static_cast<std::size_t>(t * wide),
                                                     static_cast<std::size_t>(wide)));
  const auto state = std::make_shared<std::vector<Array>>(std::vector<Array>{x[5], x[6]});
  const auto call = [step = Executor(device, name, decode_one), x, each, state, first] {
    std::int64_t place = first;
    std::vector<Array> latest;
    for (const Array& token : each) {
      latest =
          step(token, x[1], x[2], x[3], x[4], donate((*state)[0]), donate((*state)[1]), place++);
      *state = {latest[1], latest[2]};
      written::wait_for(latest[0]);
    }
    return latest[0];
  };
  return {[call] { call(); }, [call] { return std::vector<Array>{call()}; }};
}

}  // namespace

void add_written_networks(std::vector<Row>& rows) {
  std::vector<WrittenModel> models{lstm_of(1, 64), lstm_of(32, 128), conv_net_of(8)};
  models.push_back(
      {"step of a perceptron",
       "64-128-10, batch 64",
       {numbers({64, 64}), places({64}, 10), numbers({64, 128}, -0.1, 0.1),
        numbers({128}, -0.1, 0.1), numbers({128, 10}, -0.1, 0.1), numbers({10}, -0.1, 0.1)},
       by_executor(step_of_perceptron),
       plain::perceptron_step});
  models.push_back({"step of a softmax regression",
                    "64-10, batch 256",
                    {numbers({256, 64}), places({256}, 10), numbers({64, 10}, -0.1, 0.1),
                     numbers({10}, -0.1, 0.1)},
                    by_executor(step_of_regression),
                    plain::softmax_regression_step});
  const WrittenInput weights = numbers({64, 64}, -0.2, 0.2);
  models.push_back({"norm and attention",
                    "128 tokens, 64 wide, 4 heads",
                    {numbers({128, 64}, -1, 1), numbers({64}), numbers({64}), weights, weights,
                     weights, weights},
                    by_executor(block_of_attention),
                    plain::attention_block,
                    1e-3});
  const WrittenInput wide = numbers({256, 256}, -0.1, 0.1), cache = numbers({4, 256, 64}, -1, 1);
  models.push_back({"decode with a cache",
                    "16 tokens up to 256, 256 wide",
                    {numbers({16, 256}, -1, 1), wide, wide, wide, wide, cache, cache},
                    decode_in_turn,
                    plain::cached_decode,
                    1e-3});
  models.push_back({"mean of embeddings",
                    "256 bags of 20, 64 wide",
                    {numbers({10'000, 64}), places({256, 20}, 10'000)},
                    by_executor([](const Node& table, const Node& rows_of_bags) {
                      return mean(take(table, rows_of_bags), 1);
                    }),
                    plain::embedding_bag});
  models.push_back(
      {"gelu by erf",
       "1M",
       {numbers({1'000'000}, -3, 3)},
       by_executor([](const Node& x) { return 0.5 * x * (1.0 + erf(x / std::sqrt(2.0))); }),
       plain::gelu});
  add_written_rows(rows, "written-networks", std::move(models));
}

}  // namespace heddle::bench
