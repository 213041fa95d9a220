// A transformer block that processes one token at a time: a cache keeps the keys and values of
// earlier tokens. Each step reads the cache in one memory and writes the next cache to a second
// memory.
#include <heddle/heddle.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <span>
#include <string>
#include <vector>

using namespace heddle;

constexpr std::int64_t width = 32, heads = 4, depth = width / heads, hidden = 64, longest = 16;

// One template for blocks of types, of nodes and of arrays.
template <class Leaf>
struct Block {
  Leaf norm1, query, key, value, out, norm2, up, down;
};
template <class Leaf>
HEDDLE_TREE(Block<Leaf>, norm1, query, key, value, out, norm2, up, down)

template <class Leaf>
struct Cache {
  Leaf keys, values;  // [heads, longest, depth]
};
template <class Leaf>
HEDDLE_TREE(Cache<Leaf>, keys, values)

struct Step {
  Node y;  // [1, width]
  Cache<Node> cache;
};
HEDDLE_TREE(Step, y, cache)

/// [1, width] as [heads, 1, depth].
Node by_heads(const Node& x) { return reshape(x, {heads, 1, depth}); }

/// The block's output for token x [1, width] at position `place`, i64, and the cache with the token
/// added.
Step step(const Graph& graph, const Block<Node>& block, const Cache<Node>& before, const Node& x,
          const Node& place) {
  Cache<Node> cache = before;
  Node attended;
  {
    const auto scope = graph.scope("attention");
    const Node normal = rms_norm(x, block.norm1);
    cache.keys =
        dynamic_update_slice(cache.keys, by_heads(matmul(normal, block.key)), {0, place, 0});
    cache.values =
        dynamic_update_slice(cache.values, by_heads(matmul(normal, block.value)), {0, place, 0});
    const Node seen = graph.iota({i64, {1, longest}}) <= place;  // the positions filled so far
    const Node mixed =
        attention(by_heads(matmul(normal, block.query)), cache.keys, cache.values, {}, seen);
    attended = x + matmul(reshape(mixed, {1, width}), block.out);
  }
  const auto scope = graph.scope("feed_forward");
  const Node normal = rms_norm(attended, block.norm2);
  return {attended + matmul(silu(matmul(normal, block.up)), block.down), cache};
}

HostArray numbers(Dims dims, double range, std::uint64_t seed) {
  HostArray array = HostArray::uniform({f32, std::move(dims)}, seed);
  for (float& each : array.values<float>()) each = static_cast<float>((2 * each - 1) * range);
  return array;
}

// The same computation by plain loops, over all tokens.

using Row = std::vector<float>;

Row product(const Row& x, const HostArray& matrix) {
  const auto w = matrix.values<float>();
  Row y(w.size() / x.size());
  for (std::size_t i = 0; i < x.size(); ++i) {
    for (std::size_t j = 0; j < y.size(); ++j) y[j] += x[i] * w[i * y.size() + j];
  }
  return y;
}

Row normalised(const Row& x, const HostArray& scale) {
  float squares = 0;
  for (const float each : x) squares += each * each;
  Row y(x);
  const float length = std::sqrt(squares / static_cast<float>(x.size()) + 1e-5F);
  for (std::size_t i = 0; i < y.size(); ++i) y[i] = x[i] / length * scale.values<float>()[i];
  return y;
}

std::vector<Row> expected(const Block<HostArray>& block, const std::vector<Row>& tokens) {
  std::vector<Row> keys, values, answers;
  for (const Row& x : tokens) {
    const Row normal = normalised(x, block.norm1), q = product(normal, block.query);
    keys.push_back(product(normal, block.key));
    values.push_back(product(normal, block.value));
    Row mixed(width);
    for (std::size_t head = 0; head < heads; ++head) {
      std::vector<float> shares;
      float sum = 0;
      for (const Row& key : keys) {
        float score = 0;
        for (std::size_t d = head * depth; d < (head + 1) * depth; ++d) score += q[d] * key[d];
        shares.push_back(std::exp(score / std::sqrt(static_cast<float>(depth))));
        sum += shares.back();
      }
      for (std::size_t t = 0; t < values.size(); ++t) {
        for (std::size_t d = head * depth; d < (head + 1) * depth; ++d)
          mixed[d] += shares[t] / sum * values[t][d];
      }
    }
    Row attended = product(mixed, block.out);
    for (std::size_t i = 0; i < width; ++i) attended[i] += x[i];
    Row wide = product(normalised(attended, block.norm2), block.up);
    for (float& each : wide) each /= 1 + std::exp(-each);
    Row answer = product(wide, block.down);
    for (std::size_t i = 0; i < width; ++i) answer[i] += attended[i];
    answers.push_back(answer);
  }
  return answers;
}

int main() try {
  const double range = 1 / std::sqrt(static_cast<double>(width));
  const Block<HostArray> weights{numbers({width}, 1, 1),
                                 numbers({width, width}, 4 * range, 2),
                                 numbers({width, width}, 4 * range, 3),
                                 numbers({width, width}, range, 4),
                                 numbers({width, width}, range, 5),
                                 numbers({width}, 1, 6),
                                 numbers({width, hidden}, range, 7),
                                 numbers({hidden, width}, range, 8)};

  const auto types =
      tree_map<HostArray>(weights, [](const HostArray& each) { return each.type(); });
  const ArrayType cache_type{f32, {heads, longest, depth}};
  const auto traced = trace("step", step, types, Cache<ArrayType>{cache_type, cache_type},
                            ArrayType{f32, {1, width}}, ArrayType{i64, {}});
  const GraphProgram program = traced.program();
  const std::vector<HostArray> constants = flatten<HostArray>(weights).leaves;
  for (std::size_t k = 0; k < constants.size(); ++k)
    program.parameters[k].set_host(constants[k], MemoryMode::hosted_constant);
  const std::span<const Tensor> rest = std::span(program.parameters).subspan(constants.size());
  const Tensor &x = rest[2], &place = rest[3];

  auto backend = Backend::open();
  auto device = backend.physical_device(0).new_virtual_device();
  const Code code = backend.compile(program.program);
  // Even steps read the first cache and write the second, odd steps the reverse.
  std::array<std::array<Buffer, 2>, 2> caches{
      {{Buffer::allocate(device, cache_type), Buffer::allocate(device, cache_type)},
       {Buffer::allocate(device, cache_type), Buffer::allocate(device, cache_type)}}};
  std::vector<Routine> steps;
  for (std::size_t turn = 0; turn < 2; ++turn) {
    Context context(device);
    for (std::size_t k = 0; k < 2; ++k) {
      context = context.with(rest[k], {caches[turn][k], cache_type})
                    .with(program.results[1 + k], {caches[1 - turn][k], cache_type});
    }
    steps.push_back(context.link(code));
  }

  const HostArray drawn = numbers({longest, width}, 1, 9);
  std::vector<Row> tokens;
  for (std::size_t t = 0; t < longest; ++t) {
    const auto row = drawn.values<float>().subspan(t * width, width);
    tokens.emplace_back(row.begin(), row.end());
  }
  const std::vector<Row> wanted = expected(weights, tokens);
  double worst = 0;
  for (std::size_t t = 0; t < longest; ++t) {
    const Routine& run = steps[t % 2];
    run.context().write(x, tokens[t]);
    run.context().write(place, std::vector<std::int64_t>{static_cast<std::int64_t>(t)});
    run.schedule();
    const std::vector<float> y = run.context().read<float>(program.results[0]);
    for (std::size_t i = 0; i < width; ++i)
      worst = std::max<double>(worst, std::abs(y[i] - wanted[t][i]));
    if (t % 5 == 0) std::printf("token %zu: %.2f %.2f %.2f ...\n", t, y[0], y[1], y[2]);
  }
  std::printf("as plain loops over all tokens compute it: %s\n", worst < 1e-4 ? "yes" : "no");
} catch (const Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
